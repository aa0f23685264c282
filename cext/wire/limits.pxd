"""Limits: lengths of the protocol and of stored data, on which client, broker and file agree.

One name a limit. Where two numbers look like the same limit, they are not, and say here why. What
is bounded for our own sake (buffers, records looked at in a turn) stands where it is used.
rmq/limits.py is the same for Python; tests/source/test_vocabulary.py compares the two. A header of
constants: it makes no code, and every folder of cext may take from it.
"""

cdef enum:
    # Of a whole frame that we take from a client or send to a broker, its four length bytes
    # counted: RocketMQ's frameMaxLength, above which its brokers close the connection.
    FRAME_BYTES_MAX = 16777216
    # Of an answer to our own client. Brokers send as many messages as a pull asks for and one
    # more, and bound no answer of their own; so a client takes more than it may send.
    ANSWER_BYTES_MAX = 33554432
    PROPERTIES_BYTES_MAX = 32767        # of a message's properties: their length is an i16
    RECORD_BYTES_MIN = 91               # of a stored message: IPv4 hosts, v1, all texts empty
    TOPIC_BYTES_V1_MAX = 127            # of a topic in a record of version 1: its length is an i8
    TOPIC_BYTES_MAX = 255               # of any topic
    GROUP_BYTES_MAX = 255               # of any group
    # Of what a client may name; longer names come from stores and other brokers.
    TOPIC_CHARACTERS_MAX = 127
    RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX = 255
    # Of one topic; a limit of ours, so that no request walks 2^31 queues.
    TOPIC_QUEUES_MAX = 65535
    # Of slaves that follow one master at a time: ours, each has a place at the master.
    SLAVES_MAX = 16
    # Of the levels that messageDelayLevel may name, which are the queues of SCHEDULE_TOPIC_XXXX.
    DELAY_LEVELS_MAX = 18
