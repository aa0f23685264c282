"""Sender: the hot half of a producer, whose other half is Producer in Python.

    send_async(message, callback)
      plain          the topic's next Target takes the message: alone, or for its batch (target.pxd)
      anything else  a hook, a selector, a large body, ..: Sender._send_otherwise (Python)
"""
from libc.stdint cimport uint32_t

from cext.client.sends cimport Sends


cdef class Sender(Sends):
    cdef readonly dict topics        # topic -> TopicQueues
    cdef public bint direct          # plain sends need nothing from Python (no hook, running, ..)
    cdef public bint batching
    cdef public int retries
    cdef public uint32_t compress_from
    cdef public uint32_t body_max
