"""PROXY protocol. See proxy_protocol.pxd; the protocol is HAProxy's doc/proxy-protocol.txt."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp, memcpy, memset

from cext.base.byteorder cimport load_u16
from cext.base.status cimport OK, POOL_EMPTY
from cext.net.address_network cimport (
    ADDRESS_BYTES,
    MAPPED,
    MAPPED_BYTES,
    in_networks,
    source_of,
)
from cext.net.connection cimport (
    HANDSHAKE_BEGUN,
    TRANSPORT_FAILED,
    WANT_READ,
    WANTS_ADDRESS,
    Connection,
)
from cext.net.socket_api cimport AF_INET, AF_INET6, EAGAIN, EINTR, MSG_DONTWAIT, errno, recv

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_PEEK

cdef extern from "<arpa/inet.h>" nogil:
    int inet_pton(int family, const char* text, void* out)

cdef enum:
    LINE_BYTES = 107                # longest line of version 1, its end included
    HEAD_BYTES = 16                 # of version 2, before the addresses
    V4_BYTES = 12                   # of two addresses and two ports in version 2
    V6_BYTES = 36
    VERSION_2 = 0x20
    LOCAL = 0x20
    PROXY = 0x21
    TCP_OVER_V4 = 0x11
    TCP_OVER_V6 = 0x21
    SKIP_BYTES = 256                # discarded by one recv

cdef const char* SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
cdef enum:
    SIGNATURE_BYTES = 12

cdef struct ProxyState:
    ProxyServer* server
    uint8_t words[LINE_BYTES + 1]   # the line, or the head and addresses of version 2
    uint32_t got                    # bytes in `words`
    uint32_t to_skip                # bytes of version 2 after the addresses, to be discarded


cdef inline ProxyState* state_of(Connection* c) noexcept nogil:
    return <ProxyState*> c.transport_state


cdef int go_behind(Connection* c) noexcept nogil:
    """The header is over: hands the connection over to the next transport. A TransportResult."""
    cdef ProxyState* s = state_of(c)
    cdef const ProxyServer* server = s.server
    free(s)
    c.transport_state = NULL
    c.transport = server.behind
    c.transport_wants &= ~<uint8_t> (HANDSHAKE_BEGUN | WANTS_ADDRESS)
    if c.transport == NULL:
        return 0
    if not c.transport.open(c.transport.owner, c):
        c.transport = NULL
        return TRANSPORT_FAILED
    return c.transport.handshake(c)


cdef bint proxy_open(void* owner, Connection* c) noexcept nogil:
    cdef ProxyServer* server = <ProxyServer*> owner
    cdef ProxyState* s
    cdef uint8_t source[ADDRESS_BYTES]
    source_of(c, source)
    if not in_networks(server.balancers, server.balancer_count, source):
        c.transport = server.behind
        return c.transport == NULL or c.transport.open(c.transport.owner, c)
    s = <ProxyState*> calloc(1, sizeof(ProxyState))
    if s != NULL:
        s.server = server
    c.transport_state = s
    c.transport_wants |= WANTS_ADDRESS
    return s != NULL


cdef int receive(Connection* c, void* at, size_t room, int flags) noexcept nogil:
    """Returns how many bytes were received, or a TransportResult."""
    cdef ssize_t got = recv(c.fd, at, room, flags | MSG_DONTWAIT)
    if got < 0 and (errno == EAGAIN or errno == EINTR):
        return WANT_READ
    return <int> got if got > 0 else TRANSPORT_FAILED


# ---- version 1

cdef inline int word_end(const uint8_t* words, int at) noexcept nogil:
    while words[at] > c' ':
        at += 1
    return at


cdef int port_of(const uint8_t* word, int length) noexcept nogil:
    """The port that a word says, or -1 if it is not one."""
    cdef int i, found = 0
    if length < 1 or length > 5:
        return -1
    for i in range(length):
        if word[i] < c'0' or word[i] > c'9':
            return -1
        found = found * 10 + word[i] - c'0'
    return found if found <= 65535 else -1


cdef bint is_local(const uint8_t* address, uint32_t size) noexcept nogil:
    """Whether it is in 127.0.0.0/8, or 0.0.0.0, ::1, ::, or one of the first two as IPv6."""
    cdef uint32_t i
    if size == ADDRESS_BYTES:
        if memcmp(address, MAPPED, MAPPED_BYTES) == 0:
            return is_local(address + MAPPED_BYTES, 4)
        for i in range(ADDRESS_BYTES - 1):
            if address[i] != 0:
                return False
        return address[ADDRESS_BYTES - 1] <= 1
    return address[0] == 127 or (address[0] | address[1] | address[2] | address[3]) == 0


cdef void take_address(Connection* c, const uint8_t* address, uint32_t size,
                       int port) noexcept nogil:
    """Sets the client's address. A local one means the balancer's machine, not this one: then the
    client keeps the balancer's address."""
    if is_local(address, size):
        return
    c.address_bytes = size + 4
    memcpy(c.address, address, size)
    memset(c.address + size, 0, 2)
    c.address[size + 2] = <uint8_t> (port >> 8)
    c.address[size + 3] = <uint8_t> port


cdef bint take_line(Connection* c) noexcept nogil:
    """Takes the address from a line "PROXY TCP4 source destination port port". False: it is wrong.
    """
    cdef ProxyState* s = state_of(c)
    cdef uint8_t* words = s.words
    cdef uint8_t address[ADDRESS_BYTES]
    cdef int[7] begins
    cdef int[7] ends
    cdef int i, port, at = 0
    cdef int family = AF_INET
    if s.got < 2 or words[s.got - 2] != c'\r':
        return False
    words[s.got - 2] = 0
    if memcmp(words, b"PROXY UNKNOWN", 13) == 0 and (words[13] == 0 or words[13] == c' '):
        return True
    for i in range(6):
        begins[i] = at
        ends[i] = at = word_end(words, at)
        if ends[i] == begins[i] or words[at] != (c' ' if i < 5 else 0):
            return False
        words[at] = 0
        at += 1
    if at != <int> s.got - 1 or ends[0] != 5 or ends[1] != 10 or memcmp(words, b"PROXY", 5) != 0:
        return False
    if memcmp(words + 6, b"TCP6", 4) == 0:
        family = AF_INET6
    elif memcmp(words + 6, b"TCP4", 4) != 0:
        return False
    port = port_of(words + begins[4], ends[4] - begins[4])
    if (port < 0 or port_of(words + begins[5], ends[5] - begins[5]) < 0
            or inet_pton(family, <const char*> words + begins[3], address) != 1
            or inet_pton(family, <const char*> words + begins[2], address) != 1):
        return False
    take_address(c, address, ADDRESS_BYTES if family == AF_INET6 else 4, port)
    return True


cdef int read_line(Connection* c) noexcept nogil:
    """Returns 1 when the whole line has been received, or a TransportResult. Takes no byte after
    the line from the socket."""
    cdef ProxyState* s = state_of(c)
    cdef uint8_t* begin
    cdef uint8_t* end
    cdef int got
    while True:
        begin = s.words + s.got
        got = receive(c, begin, LINE_BYTES - s.got, MSG_PEEK)
        if got < 0:
            return got
        end = <uint8_t*> memchr(begin, c'\n', <size_t> got)
        if end != NULL:
            got = <int> (end - begin) + 1
        got = receive(c, begin, <size_t> got, 0)
        if got < 0:
            return got
        s.got += <uint32_t> got
        if end != NULL:
            return 1
        if s.got == LINE_BYTES:
            return TRANSPORT_FAILED


# ---- version 2

cdef bint take_head(ProxyState* s) noexcept nogil:
    return (memcmp(s.words, SIGNATURE, SIGNATURE_BYTES) == 0
            and (s.words[12] == LOCAL or s.words[12] == PROXY))


cdef inline uint32_t bytes_kept(const ProxyState* s) noexcept nogil:
    """Bytes of the addresses and ports; 0 if they do not name the client."""
    if s.words[12] == LOCAL:
        return 0
    if s.words[13] == TCP_OVER_V4:
        return V4_BYTES
    return V6_BYTES if s.words[13] == TCP_OVER_V6 else 0


cdef void take_addresses(Connection* c) noexcept nogil:
    cdef const ProxyState* s = state_of(c)
    cdef uint32_t kept = bytes_kept(s)
    cdef uint32_t size = 4 if kept == V4_BYTES else ADDRESS_BYTES
    if kept == 0:
        return
    take_address(c, s.words + HEAD_BYTES, size, load_u16(s.words + HEAD_BYTES + 2 * size))


cdef int read_to(Connection* c, uint32_t end) noexcept nogil:
    cdef ProxyState* s = state_of(c)
    cdef int got
    while s.got < end:
        got = receive(c, s.words + s.got, end - s.got, 0)
        if got < 0:
            return got
        s.got += <uint32_t> got
    return 1


cdef int skip(Connection* c) noexcept nogil:
    cdef ProxyState* s = state_of(c)
    cdef uint8_t nothing[SKIP_BYTES]
    cdef int got
    while s.to_skip > 0:
        got = receive(c, nothing, min(s.to_skip, <uint32_t> SKIP_BYTES), 0)
        if got < 0:
            return got
        s.to_skip -= <uint32_t> got
    return 1


cdef int read_addresses(Connection* c) noexcept nogil:
    """Returns 1 when the whole header of version 2 has been received, or a TransportResult."""
    cdef ProxyState* s = state_of(c)
    cdef uint32_t length, kept
    cdef bint is_new = s.got < HEAD_BYTES
    cdef int result = read_to(c, HEAD_BYTES)
    if result < 0:
        return result
    if not take_head(s):
        return TRANSPORT_FAILED
    length = load_u16(s.words + 14)
    kept = bytes_kept(s)
    if length < kept:
        return TRANSPORT_FAILED
    if is_new:
        s.to_skip = length - kept
    result = read_to(c, HEAD_BYTES + kept)
    return skip(c) if result > 0 else result


# ---- the whole

cdef int proxy_handshake(Connection* c) noexcept nogil:
    cdef ProxyState* s = state_of(c)
    cdef uint8_t first = s.words[0]
    cdef int result
    if s.got == 0:
        result = receive(c, &first, 1, MSG_PEEK)
        if result < 0:
            return result
        if first != c'P' and first != c'\r' and s.server.may_say_nothing:
            return go_behind(c)             # the balancer's own connection
        c.transport_wants |= HANDSHAKE_BEGUN
    if first == c'P':
        result = read_line(c)
        if result > 0 and not take_line(c):
            return TRANSPORT_FAILED
    elif first == c'\r':
        result = read_addresses(c)
        if result > 0:
            take_addresses(c)
    else:
        result = TRANSPORT_FAILED
    return go_behind(c) if result > 0 else result


cdef ssize_t proxy_receive(Connection* c, void* at, size_t room) noexcept nogil:
    return TRANSPORT_FAILED                 # never called: by now it has the next transport


cdef size_t proxy_pending(Connection* c) noexcept nogil:
    return 0


cdef const uint8_t* proxy_proved(Connection* c, uint32_t* length) noexcept nogil:
    return NULL


cdef void proxy_close(Connection* c) noexcept nogil:
    free(c.transport_state)
    c.transport_state = NULL


cdef int proxy_server_open(ProxyServer* server, const Transport* behind, const uint8_t* packed,
                           uint32_t length) noexcept nogil:
    memset(server, 0, sizeof(ProxyServer))
    server.balancers = <Network*> malloc(length + 1)
    if server.balancers == NULL:
        return POOL_EMPTY
    memcpy(server.balancers, packed, length)
    server.balancer_count = length // sizeof(Network)
    server.behind = behind
    server.transport.owner = server
    server.transport.open = proxy_open
    server.transport.handshake = proxy_handshake
    server.transport.receive = proxy_receive
    server.transport.send = NULL            # nothing is sent before the handshake is over
    server.transport.pending = proxy_pending
    server.transport.close = proxy_close
    server.transport.proved = proxy_proved
    return OK


cdef void proxy_server_close(ProxyServer* server) noexcept nogil:
    free(server.balancers)
    memset(server, 0, sizeof(ProxyServer))
