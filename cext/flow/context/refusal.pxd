"""Refusal: what a client is told when its request fails: a response code and a text.

A step's status says why it failed; each handler has one table of what its client is told for it.
The last row has the status OTHERWISE and stands for every status without a row of its own. Texts
with numbers in them are not in the table: the handler answers with reply_error() before it looks.

Example:
    cdef Refusal[2] refusals = [
        Refusal(NOT_READY, SYSTEM_BUSY, b"busy, try again"),
        Refusal(OTHERWISE, SYSTEM_ERROR, b"the message is damaged"),
    ]
    refusal_of(refusals, CORRUPT).code == SYSTEM_ERROR
"""
from libc.stdint cimport int32_t

cdef enum:
    OTHERWISE = 0               # the number of Status OK, which is never refused

cdef struct Refusal:
    int status                  # a Status or an AppendStatus
    int32_t code                # a ResponseCode
    const char* text            # zero-terminated, static

cdef inline const Refusal* refusal_of(const Refusal* table, int status) noexcept nogil:
    while table.status != status and table.status != OTHERWISE:
        table += 1
    return table
