"""Topic config: one topic's configuration and its JSON form.

    {"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",
     "topicName":"t","topicSysFlag":0,"writeQueueNums":4}

perm is a sum of read 4, write 2, inherit 1 (other topics may be created with its configuration).
Consumers see the read queues, producers the write queues; queue ids begin at 0.

attributes.py says which attributes there are and what values they may have.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from rmq.broker.json_members import bool_member, int_member, text_member
from rmq.broker.name_checks import check_topic
from rmq.codes import PERM_INHERIT, PERM_READ, PERM_WRITE
from rmq.errors import ProtocolError
from rmq.limits import TOPIC_QUEUES_MAX

PERM_MAX = PERM_READ | PERM_WRITE | PERM_INHERIT

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


class TopicConfig(msgspec.Struct, frozen=True):
    """Immutable: a change makes a new one, so a snapshot of the table is a plain copy of it."""

    name: str
    read_queues: int = 16
    write_queues: int = 16
    perm: int = PERM_READ | PERM_WRITE
    order: bool = False
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    attributes: Mapping[str, str] = {}

    @property
    def queues(self) -> int:
        """How many queues may hold messages."""
        return max(self.read_queues, self.write_queues)

    def members(self) -> dict[str, Any]:
        return {
            "attributes": dict(self.attributes),
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }

    def masked(self, broker_permission: int) -> "TopicConfig":
        """The configuration as clients see it on a broker with this permission."""
        return msgspec.structs.replace(self, perm=self.perm & (broker_permission | PERM_INHERIT))

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "TopicConfig":
        """Reads JSON and checks every name and number; ProtocolError or Refusal when wrong."""
        attributes = members.get("attributes") or {}
        if not isinstance(attributes, Mapping):
            raise ProtocolError("member attributes of a topic is not an object")
        return cls(
            name=check_topic(text_member(members, "topicName")),
            read_queues=int_member(members, "readQueueNums", 16, 0, TOPIC_QUEUES_MAX),
            write_queues=int_member(members, "writeQueueNums", 16, 0, TOPIC_QUEUES_MAX),
            perm=int_member(members, "perm", PERM_READ | PERM_WRITE, 0, PERM_MAX),
            order=bool_member(members, "order", False),
            filter_type=text_member(members, "topicFilterType", "SINGLE_TAG"),
            sys_flag=int_member(members, "topicSysFlag", 0, -(2**31), 2**31 - 1),
            attributes={str(key): str(value) for key, value in attributes.items()},
        )
