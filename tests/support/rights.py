"""Rights: what each request code requires, by number, in a list that is independent of the table in
rmq/auth/permissions.py.

    code, fields                -> (resource, actions): each resource needs one of its actions
    code, fields, JSON body     -> the same, for resources that the body names
"""

from __future__ import annotations

from typing import Any

Rights = list[tuple[str, str]]

CLUSTER = "DefaultCluster"
CONSUMED = [("Topic:t", "Sub"), ("Group:g", "Sub")]
POPPED = CONSUMED[::-1]

# By number, as clients send them: the rights that the headers of RocketMQ 5.5.0 are annotated with.
# Headers without annotations, which there any account may send, have the rights that a broker for
# several users must require.
OF_TOPIC_AND_GROUP = {"topic": "t", "group": "g"}
REQUESTS: list[tuple[int, dict[str, Any], Rights]] = [
    (10, {"topic": "t", "producerGroup": "p"}, [("Topic:t", "Pub")]),
    (310, {"a": "p", "b": "t"}, [("Topic:t", "Pub")]),
    (320, {"a": "p", "b": "t"}, [("Topic:t", "Pub")]),
    (310, {"a": "CLIENT_INNER_PRODUCER", "b": "%RETRY%g"}, [("Group:g", "Sub")]),
    (310, {"a": "mine", "b": "%RETRY%others"}, [("Group:others", "Sub")]),
    (324, {"topic": "t"}, [("Topic:t", "Pub")]),
    (325, {"b": "t"}, [("Topic:t", "Pub")]),
    (370, {"topic": "t"}, [("Topic:t", "Pub")]),
    (36, {"group": "g"}, [("Group:g", "Sub")]),
    (36, {"group": "g", "originTopic": "t"}, [("Topic:t", "Sub"), ("Group:g", "Sub")]),
    (200051, {"consumerGroup": "g", "topic": "%RETRY%g_t"},
     [("Group:g", "Sub"), ("Topic:t", "Sub")]),
    (200053, {"consumerGroup": "g", "topic": "%RETRY%g+t"},
     [("Group:g", "Sub"), ("Topic:t", "Sub")]),
    (200051, {"consumerGroup": "g", "topic": "%RETRY%other_t"},
     [("Group:g", "Sub"), ("Group:other_t", "Sub")]),
    (37, {"producerGroup": "p"}, []),
    (37, {"producerGroup": "p", "topic": "t"}, [("Topic:t", "Pub")]),
    (11, {"topic": "t", "consumerGroup": "g"}, CONSUMED),
    (361, {"topic": "t", "consumerGroup": "g"}, CONSUMED),
    (11, {"topic": "%RETRY%g", "consumerGroup": "g"}, [("Group:g", "Sub")] * 2),
    (11, {"topic": "%RETRY%h", "consumerGroup": "g"}, [("Group:h", "Sub"), ("Group:g", "Sub")]),
    *((code, {"topic": "t", "consumerGroup": "g"}, POPPED)
      for code in (200050, 200051, 200052, 200053, 200054)),
    (12, {"topic": "t"}, [("Topic:t", "Get|Sub")]),
    (33, {"offset": 5}, [(f"Cluster:{CLUSTER}", "Get")]),
    (33, {"offset": 5, "topic": "t"}, [("Topic:t", "Get")]),
    (14, {"topic": "t", "consumerGroup": "g"},
     [("Topic:t", "Get|Sub"), ("Group:g", "Get|Sub")]),
    (15, {"topic": "t", "consumerGroup": "g"},
     [("Topic:t", "Sub|Update"), ("Group:g", "Sub|Update")]),
    (35, {"clientID": "c"}, []),
    (35, {"clientID": "c", "consumerGroup": "g"}, [("Group:g", "Sub")]),
    (17, {"topic": "t"}, [("Topic:t", "Create")]),
    (215, {"topic": "t"}, [("Topic:t", "Delete")]),
    (207, {"groupName": "g"}, [("Group:g", "Delete")]),
    (222, {"group": "g", "topic": "t"}, [("Group:g", "Update"), ("Topic:t", "Update")]),
    (314, {"srcGroup": "s", "destGroup": "d", "topic": "t"},
     [("Group:s", "Get"), ("Group:d", "Update"), ("Topic:t", "Update")]),
    (308, {"filterGroups": "f, h", "compareGroup": "c", "topic": "t"},
     [("Group:f", "Get"), ("Group:h", "Get"), ("Group:c", "Get"), ("Topic:t", "Get")]),
    (208, {"consumerGroup": "g", "topicList": "a;b;"},
     [("Group:g", "Get"), ("Topic:a", "Get"), ("Topic:b", "Get")]),
    (105, {"topic": "t"}, [("Topic:t", "Get|Pub|Sub")]),
    (105, {"topic": "%RETRY%g"}, [("Group:g", "Get|Pub|Sub")]),
    (105, {"topic": "TBW102"}, []),
    *((code, {"topic": "t"}, [("Topic:t", "Get|Sub")]) for code in (29, 30, 31, 32)),
    *((code, {"topic": "t"}, [("Topic:t", "Get")]) for code in (202, 300, 351, 354)),
    (323, {"topic": "t"}, [("Topic:t", "Update")]),
    (38, {"consumerGroup": "g"}, [("Group:g", "Get|Sub")]),
    (46, {}, []),
    *((code, {"consumerGroup": "g"}, [("Group:g", "Get")]) for code in (203, 307)),
    *((code, {"group": "g"}, [("Group:g", "Get")]) for code in (343, 352)),
    *((code, OF_TOPIC_AND_GROUP, [("Group:g", "Get"), ("Topic:t", "Get")])
      for code in (223, 303, 345)),
    (321, {"topic": "t", "consumerGroup": "g"}, [("Group:g", "Get"), ("Topic:t", "Get")]),
    (321, {"topic": "t"}, [("Topic:t", "Get")]),
    (353, OF_TOPIC_AND_GROUP, [("Group:g", "Update"), ("Topic:t", "Update")]),
    (309, {"consumerGroup": "g", "topic": "t"}, POPPED),
    (309, {"consumerGroup": "g"}, [("Group:g", "Sub")]),
    (200055, {"consumerGroup": "g", "topic": "t"}, [("Group:g", "Get"), ("Topic:t", "Get")]),
    *((code, {"clusterName": "Other"}, [("Cluster:Other", "Update")])
      for code in (104, 216, 322, 1002, 1011)),
    *((code, {"clusterName": "Other"}, [("Cluster:Other", "Get")]) for code in (901, 1012)),
    *((code, {}, [(f"Cluster:{CLUSTER}", "Update")]) for code in (
        25, 27, 100, 102, 104, 205, 213, 216, 217, 301, 302, 306, 316, 318, 322,
        327, 329, 401, 513, 902, 903, 905, 906, 908, 1001, 1002, 1008, 1009, 1011,
        2001, 2002, 2004, 3001, 3002, 3003, 3006, 3007, 3008, 5001, 200056,
    )),
    *((code, {}, [(f"Cluster:{CLUSTER}", "Get")]) for code in (
        13, 21, 22, 23, 26, 28, 43, 45, 47, 60, 61, 101, 106, 201, 204, 206, 214, 219, 224, 304,
        305, 311, 312, 313, 315, 317, 319, 328, 355, 402, 901, 907, 1005, 1006, 1007,
        1010, 1012, 2003, 3004, 3005, 3009, 3010,
    )),
]  # fmt: skip

_LOCKS = {"consumerGroup": "g", "mqSet": [{"topic": "t"}, {"topic": "u"}]}
_CONSUMER = {"groupName": "g", "subscriptionDataSet": [{"topic": "t"}, {"topic": "%RETRY%g"}]}
_LOCKED = [("Group:g", "Sub"), ("Topic:t", "Sub"), ("Topic:u", "Sub")]

WITH_BODY: list[tuple[int, dict[str, Any], Any, Rights]] = [
    (400, {"consumerGroup": "of-mine"}, {"consumerGroup": "g", "topic": "t"}, POPPED),
    (34, {}, {"consumerDataSet": [_CONSUMER], "producerDataSet": [{"groupName": "p"}]},
     [("Group:g", "Sub"), ("Topic:t", "Sub"), ("Group:g", "Sub")]),
    (34, {}, {"producerDataSet": [{"groupName": "p"}]}, []),
    (41, {}, _LOCKS, _LOCKED),
    (42, {}, _LOCKS, _LOCKED),
    (200151, {}, {"acks": [{"c": "g", "t": "t"}, {"c": "h", "t": "u"}]},
     [("Group:g", "Sub"), ("Topic:t", "Sub"), ("Group:h", "Sub"), ("Topic:u", "Sub")]),
    (18, {}, {"topicConfigList": [{"topicName": "t"}, {"topicName": "u"}]},
     [("Topic:t", "Create"), ("Topic:u", "Create")]),
    (200, {}, {"groupName": "g"}, [("Group:g", "Create")]),
    (225, {}, {"groupConfigList": [{"groupName": "g"}]}, [("Group:g", "Create")]),
]  # fmt: skip
