"""Revive entry: a check point of a pop, or acks, as JSON in the revive log, named as in RocketMQ.

    ck     {"bm":0,"bn":"b","c":"g","d":[0,1,3],"it":60000,"n":3,"pt":1700000000000,"q":0,
            "ro":0,"so":100,"t":"T"}
           messages 100, 101 and 103 of T's queue 0 went to a consumer of g, until pt + it
    ack    {"ao":101,"bn":"b","c":"g","pt":1700000000000,"q":0,"so":100,"t":"T"}
    bAck   {"ao":-1,"aol":[100,103],..}     several acks of one check point

    bm  a bit for each listed message, set when it is done
    rp  how often the check point was put back
    ro  not used here

A request of code 200151 is {"acks":[{"b":"Bg==","c":"g","it":..,"pt":..,"q":0,"r":"0","rq":3,
"so":100,"t":"T"}],"brokerName":"b"}. b is the base64 of little-endian bits, where bit i stands for
message so + i; r says which topic it is (the topic itself or one of the group's retry topics); rq
is the queue of the revive log. One reader reads all of these.

Any thread, no state.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.wire.text cimport Text

cdef enum:
    CHECK_POINT_MESSAGES_MAX = 32       # of one pop
    LISTED_MAX = 64                     # numbers of d or aol that are read
    BITS_TEXT_MAX = 4096                # of b, for 24,576 messages; a filtered pop scans 16,384
    CHECK_POINT_BYTES_MAX = 6400        # names of 255 bytes, each up to six in JSON, and numbers

cdef struct ReviveEntry:
    Text topic
    Text group
    Text broker_name
    Text retry                          # r: "0", "1", "2"
    Text bits                           # b
    int64_t start_offset
    int64_t ack_offset                  # -1 when absent
    int64_t pop_ms
    int64_t invisible_ms
    int32_t queue_id
    int32_t revive_queue                # rq, -1 when absent
    int32_t count                       # n
    uint32_t done                       # bm
    int32_t tries                       # rp
    int32_t listed                      # numbers in `list`
    int64_t list[LISTED_MAX]            # d or aol

# Each returns the bytes written, at most CHECK_POINT_BYTES_MAX. Names must be unescaped.
cdef uint32_t write_check_point(uint8_t* out, const ReviveEntry* e) noexcept nogil
cdef uint32_t write_ack(uint8_t* out, const ReviveEntry* e) noexcept nogil

# Reads one object; `used` is its length in bytes. OK | MALFORMED | TOO_LARGE (more listed numbers
# than LISTED_MAX).
cdef int read_revive_entry(const uint8_t* at, uint32_t length, ReviveEntry* out,
                           uint32_t* used) noexcept nogil
# Reads the next ack of a request 200151; start with at[0] = 0. OK | NOT_FOUND: there are no more |
# MALFORMED.
cdef int next_batch_ack(const uint8_t* body, uint32_t length, uint32_t* at,
                        ReviveEntry* out) noexcept nogil
# Writes the numbers of the bits that are set in b, at most `capacity`. Their count, or MALFORMED.
cdef int32_t read_bits(const Text* text, int32_t* out, int32_t capacity) noexcept nogil
