"""Limits: lengths of the protocol and of stored data, on which client, broker and file agree.

Each limit has one name. Where two numbers look like the same limit they are not, and a comment here
says why. Bounds of this broker alone (buffers, records read in a turn) are where they are used.
rmq/limits.py is the same for Python; tests/source/test_vocabulary.py compares the two. This is a
header of constants: it makes no code, and every folder of cext may use it.
"""

cdef enum:
    # Of a whole frame that the broker accepts from a client, or the client sends to a broker, with
    # its four length bytes: RocketMQ's frameMaxLength. Its brokers close the connection above it.
    FRAME_BYTES_MAX = 16777216
    # Of an answer that rmq's own client accepts. Brokers send as many messages as a pull asks for,
    # and one more, and do not bound their answers; so a client accepts more than it may send.
    ANSWER_BYTES_MAX = 33554432
    PROPERTIES_BYTES_MAX = 32767        # of a message's properties: their length is an i16
    RECORD_BYTES_MIN = 91               # of a stored message: IPv4 hosts, v1, all texts empty
    TOPIC_BYTES_V1_MAX = 127            # of a topic in a record of version 1: its length is an i8
    TOPIC_BYTES_MAX = 255               # of any topic
    GROUP_BYTES_MAX = 255               # of any group
    # Of names that a client may use; longer ones come from stores and other brokers.
    TOPIC_CHARACTERS_MAX = 127
    RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX = 255
    # Of the queues of one topic: a limit of rmq, so that no request walks 2^31 queues.
    TOPIC_QUEUES_MAX = 65535
    # Of the items in the mapping of a static topic at one broker; RocketMQ has no such limit.
    MAPPING_ITEMS_MAX = 65536
    # Of the slaves that follow one master at a time: a limit of rmq, as each has a place there.
    SLAVES_MAX = 16
    # Of the levels that messageDelayLevel may name; each is a queue of SCHEDULE_TOPIC_XXXX.
    DELAY_LEVELS_MAX = 18
