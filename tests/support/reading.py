"""Reading: reads everything that is stored in a topic, as a client does."""

from __future__ import annotations

from cext.client.message import MessageExt, decode_messages
from rmq import Admin
from rmq.codes import RequestCode as Code


def read_all(namesrv_addr: str, topic: str) -> list[MessageExt]:
    """The topic's messages, by queue and offset. Their checksums are checked."""
    found = []
    with Admin(namesrv_addr=namesrv_addr, mq_client_api_timeout=60_000) as admin:
        for each in admin.queue_ranges(topic):
            at = each.min_offset
            address = admin._instance.routes.address_of(each.queue.broker_name)
            while at < each.max_offset:
                fields = {
                    "consumerGroup": "readers", "topic": topic, "queueId": each.queue.queue_id,
                    "queueOffset": at, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0,
                    "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
                }  # fmt: skip
                reply = admin._instance.call(address, Code.PULL_MESSAGE, fields)
                found += decode_messages(reply, each.queue.broker_name, True)
                at = reply.int_field("nextBeginOffset")
    return found
