"""Net: sockets and the poll loop; it knows neither frames nor files.

    reactor             the loop; one object that is also all of the following
    connection          the state of one connection, and its protocol's callbacks
    connection_table    slots, shared buffers, reasons not to read, closing
    input, output       bytes received and handed over; replies queued and sent
    listener            a port of one protocol
    transport           functions that change bytes between a socket and its connection
    proxy_protocol      a transport: who the client behind a balancer is
    tls                 a transport: TLS, with OpenSSL
    socket_bio          how OpenSSL reads and writes the sockets of connections
    handshake_thread    computes the handshakes of TLS
    client_hello        whether a client asks to resume a session
    tls_stream          TLS that begins outside of the reactor
    self_signed         a certificate for servers that have none
    address_table       connections and handshakes of each address, and their limits
    half_frames         limits of large frames that are not complete
    stalled_list        connections whose sockets take no output: the first to be closed
    peer_address, address_network, socket_api, openssl

What a frame means is up to its protocol: a listener's callbacks (connection.pxd).
"""
