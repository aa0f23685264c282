"""Limits: of the protocol and of stored data: lengths that client, broker and file agree on.

One name a limit. Where two numbers look like the same limit, they are not, and say here why. What
is bounded for our own sake stands where it is used. cext/wire/limits.pxd is the same for compiled
code, and tests/source/test_vocabulary.py compares the two. Leaf module: it imports nothing of ours.
"""

# Of a whole frame that we take from a client or send to a broker, its four length bytes counted:
# RocketMQ's frameMaxLength, above which its brokers close the connection.
FRAME_BYTES_MAX = 16 << 20
# Of a header that a server takes: it is read before anybody knows who sends it. Clients have 32 KiB
# of properties in one, each byte of which six characters stand for at most. Answers have more: the
# ids of all messages of a batch.
REQUEST_HEADER_BYTES_MAX = 1 << 20
# Of an answer to our own client. Brokers send as many messages as a pull asks for and one more, and
# bound no answer of their own; so a client takes more than it may send.
ANSWER_BYTES_MAX = 32 << 20
# Of a frame between shards and their supervisor: not RocketMQ's protocol. One carries whole tables
# (all topics, groups and members of a shard), which no client's frame does.
BUS_FRAME_BYTES_MAX = 64 << 20
# Of a frame between the broker and a process of rmqMessageFilters: not RocketMQ's protocol either.
# One carries the records of a pull, and these are at most as many as fit into an answer.
FUNCTION_FRAME_BYTES_MAX = 64 << 20

I32_MIN, I32_MAX = -(2**31), 2**31 - 1  # a number of Java's int
PROPERTIES_BYTES_MAX = 32767  # of a message's properties: their length is an i16
RECORD_BYTES_MIN = 91  # of a stored message: IPv4 hosts, version 1, all texts empty
TOPIC_BYTES_V1_MAX = 127  # of a topic in a record of version 1: its length is an i8
TOPIC_BYTES_MAX = 255  # of any topic
GROUP_BYTES_MAX = 255  # of any group

# What a client may name; longer names come from stores and other brokers.
TOPIC_CHARACTERS_MAX = 127
RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX = 255
TOPIC_QUEUES_MAX = 65535  # of one topic; ours, so that no request walks 2^31 queues
GROUP_CHARACTERS_MAX = 120
CLIENT_ID_CHARACTERS_MAX = 512  # ours; clients send ip@pid#nanoseconds and may add a unit name
# Of one heartbeat, and of one request for locks (41, 42). Ours: a frame has room for a million, and
# each is looked at by the thread that serves everybody's heartbeats. Subscriptions are those of all
# groups together: each has its topic, and its retry topic.
HEARTBEAT_GROUPS_MAX = 4096
HEARTBEAT_SUBSCRIPTIONS_MAX = 8192
LOCKED_QUEUES_MAX = 100_000

# Of slaves that follow one master at a time: ours, each has a place at the master.
SLAVES_MAX = 16

# Of an expression that a pull or a pop brings; heartbeats may bring longer ones.
PULL_EXPRESSION_BYTES_MAX = 10_000
# Of the levels that messageDelayLevel may name, which are the queues of SCHEDULE_TOPIC_XXXX.
DELAY_LEVELS_MAX = 18
