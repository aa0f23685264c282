"""Limits: lengths of the protocol and of stored data on which client, broker and file agree.

Each limit has one name. Where two numbers look like the same limit, they are not, and the comment
says why. Limits that are not part of the protocol are in the modules that use them.
cext/wire/limits.pxd has the same for compiled code, and tests/source/test_vocabulary.py compares
the two. Leaf module: it imports nothing of rmq.
"""

# A whole frame that a server takes from a client, or that is sent to a broker, with its four length
# bytes: RocketMQ's frameMaxLength, above which its brokers close the connection.
FRAME_BYTES_MAX = 16 << 20
# A header that a server takes: it is read before the sender is known. A client's header has up to
# 32 KiB of properties, and each of their bytes takes at most six characters. Answers have longer
# headers: the ids of all messages of a batch.
REQUEST_HEADER_BYTES_MAX = 1 << 20
# An answer to rmq's own client. Brokers send as many messages as a pull asks for and one more, and
# do not limit their answers, so a client takes more than it may send.
ANSWER_BYTES_MAX = 32 << 20
# A frame between shards and their supervisor, which is not RocketMQ's protocol. One frame carries
# whole tables (all topics, groups and members of a shard), which no client's frame does.
BUS_FRAME_BYTES_MAX = 64 << 20
# A frame between the broker and a process of rmqMessageFilters, which is not RocketMQ's protocol
# either. One frame carries the records of a pull: at most as many as fit into an answer.
FUNCTION_FRAME_BYTES_MAX = 64 << 20

I32_MIN, I32_MAX = -(2**31), 2**31 - 1  # a number of Java's int
PROPERTIES_BYTES_MAX = 32767  # a message's properties: their length is an i16
RECORD_BYTES_MIN = 91  # a stored message: IPv4 hosts, version 1, all texts empty
TOPIC_BYTES_V1_MAX = 127  # a topic in a record of version 1: its length is an i8
TOPIC_BYTES_MAX = 255  # any topic
GROUP_BYTES_MAX = 255  # any group

# Names that a client may use; longer names come from stores and other brokers.
TOPIC_CHARACTERS_MAX = 127
RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX = 255
MAPPING_ITEMS_MAX = 65536  # of a static topic at one broker; RocketMQ has no such limit
TOPIC_QUEUES_MAX = 65535  # one topic's queues; rmq's own, so that no request walks 2^31 queues
GROUP_CHARACTERS_MAX = 120
# rmq's own; clients send ip@pid#nanoseconds and may add a unit name
CLIENT_ID_CHARACTERS_MAX = 512
# In one heartbeat, and in one request for locks (41, 42). These limits are rmq's own: a frame has
# room for a million of them, and one thread reads the heartbeats of all clients. Subscriptions are
# those of all groups together: each group has its topic, and its retry topic.
HEARTBEAT_GROUPS_MAX = 4096
HEARTBEAT_SUBSCRIPTIONS_MAX = 8192
LOCKED_QUEUES_MAX = 100_000

# Slaves that follow one master at a time. This is rmq's own: each slave has a place at the master.
SLAVES_MAX = 16

# The expression of a pull or a pop; heartbeats may bring longer ones.
PULL_EXPRESSION_BYTES_MAX = 10_000
# The levels that messageDelayLevel may name, which are the queues of SCHEDULE_TOPIC_XXXX.
DELAY_LEVELS_MAX = 18
