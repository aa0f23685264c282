"""Reply space. See reply_space.pxd."""
from libc.stdint cimport uint32_t

from cext.memory.buffer_pool cimport buffer_pool_release, buffer_pool_take
from cext.net.connection cimport IN_JUMBO, IN_JUMBO_HEAD, REPLY_BYTES, ReplyBuffer


cdef uint8_t* reply_space_take(TurnContext s, Connection* to, uint64_t room,
                               void** block) noexcept nogil:
    block[0] = NULL
    if room <= REPLY_BYTES - sizeof(ReplyBuffer):
        return s.net.reserve_reply(to, <uint32_t> room)
    if room <= s.net.jumbo_bytes:
        block[0] = buffer_pool_take(&s.net.jumbo_pool)
    return <uint8_t*> block[0]


cdef bint reply_space_commit(TurnContext s, Connection* to, uint8_t* at, uint64_t length,
                             void* block) noexcept nogil:
    cdef bint small = length <= s.net.jumbo_pool.keep_bytes
    if block == NULL:
        return s.net.commit_reply(to, <uint32_t> length)
    if s.net.add_owned(to, at, length, block, IN_JUMBO_HEAD if small else IN_JUMBO):
        return True
    buffer_pool_release(&s.net.jumbo_pool, block)
    return False
