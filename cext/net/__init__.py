"""Net: sockets and the poll loop; it knows neither frames nor files.

    reactor             the loop; one object that is also all of the following
    connection          the state of one connection, and its protocol's callbacks
    connection_table    slots, shared buffers, reasons not to read, closing
    input, output       bytes received and handed over; replies queued and sent
    listener            a port of one protocol
    transport           bytes changed on their way
    proxy_protocol      one of these: who comes by a balancer
    tls                 another one, by OpenSSL
    socket_bio          how OpenSSL reads and writes their sockets
    handshake_thread    where handshakes are computed
    client_hello        whether a client asks to resume a session
    tls_stream          TLS that begins outside of the reactor
    self_signed         a certificate where none is named
    address_table       what an address has of connections and handshakes, and its limits
    half_frames         limits of large frames that are not complete
    stalled_list        connections that take no output: the first to be closed
    peer_address, address_network, socket_api, openssl

A frame's meaning is its protocol's matter: callbacks of the listener (connection.pxd).
"""
