"""Property scratch: where the properties of a message are written while they are changed.

    before      as they came, with JSON's escapes undone
    after       as they are stored

A shard has one. What a function writes there stands until it is done with the message, which is
when append_message() has copied the properties into the log; a reply that is pushed and a half
message that is asked about are sent from there afterwards. Meanwhile nobody else writes there, and
nothing is left for the next message. There is one exception, append_redirected() (redirect.pxd): it
copies the properties that it is given, which may lie in `after` but not in `before`, to `before`,
and from then on both are its own.

Example: a recall writes a message that deletes a timer into `after`; append_redirected() reads it
from there and leaves in `after` what the timers' topic stores.
"""
from libc.stdint cimport uint8_t

cdef enum:
    PROPERTY_SCRATCH_BYTES = 262144     # JSON may spell one of the 32767 bytes with six

cdef struct PropertyScratch:
    uint8_t* before                     # owned, PROPERTY_SCRATCH_BYTES
    uint8_t* after                      # owned, PROPERTY_SCRATCH_BYTES
