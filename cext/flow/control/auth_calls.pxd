"""Auth calls: the users of this broker, and whether requests must be signed.

rmq/broker/core_seam.py says what each promises (AuthCalls); control_side.pxd how a call is made.
"""
from cext.flow.control.ha_calls cimport HACalls

cdef class AuthCalls(HACalls):
    pass
