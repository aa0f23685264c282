"""Large cluster: fills a broker with as many topics and groups as a large cluster has.

    fill(broker.namesrv, topics=1000, groups=200)

The topics are topic-0000 and following, with one queue each. The groups are group-000 and
following, each with an offset in one topic.
"""

from __future__ import annotations

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

OF_A_REQUEST = 100


def fill(namesrv: str, topics: int, groups: int) -> None:
    with Cluster(namesrv) as cluster:
        [broker] = cluster.masters()
        assert broker.master is not None
        for first in range(0, topics, OF_A_REQUEST):
            numbers = range(first, min(first + OF_A_REQUEST, topics))
            made = [{"topicName": f"topic-{n:04}", "readQueueNums": 1, "writeQueueNums": 1,
                     "perm": 6} for n in numbers]  # fmt: skip
            body = fastjson.dumps({"topicConfigList": made})
            cluster.call(broker.master, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)
        for number in range(groups):
            admin.create_group(cluster, f"group-{number:03}", {})
            queue = MessageQueue(f"topic-{number:04}", broker.name, 0)
            admin.commit_offset(cluster, f"group-{number:03}", queue, 0)
