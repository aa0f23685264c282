"""Serving: the remoting protocol on sockets of an asyncio loop, for processes that hold no store.

    acceptor        a listening socket that does not spin when there are no descriptors left
    listener        the connections of one port, and their limits
    address_table   how many connections each client address has, and may have
    pace            how many TLS handshakes one turn of the loop may start
    connection      one client: bytes -> frames -> requests -> replies, in order
    request_table   which function answers which request code
    identity        the account with which this process signs its own requests
    one_way         frames sent to addresses without waiting for an answer
    remoting_client one connection to another server: a request, its reply
    raw_socket      the first bytes of a connection
    proxy_protocol  the address of a client that connects through a balancer
    tls             certificates, as settings name them
    tls_alert       tells the client why its handshake is refused
    own_certificate     the certificate that is shown where the settings name none
    certificate_watch   reads certificates anew when a file changes
    runtime_config  settings that are listed and changed at run time

Name servers and controllers are built on it; brokers use it to ask other servers.
"""
