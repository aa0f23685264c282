"""Serving: the remoting protocol on sockets of an asyncio loop, for processes that hold no store.

    acceptor        a listening socket that never spins for want of descriptors
    listener        the connections of one port, and their limits
    address_table   what each address has, and may have
    pace            handshakes that a turn of the loop has, at most
    connection      one client: bytes -> frames -> requests -> replies, in order
    request_table   which function answers which request code
    identity        the account by which this process signs what it asks
    one_way         frames to addresses, which nobody answers
    remoting_client one connection to another server: a request, its reply
    raw_socket      the first bytes of a connection
    proxy_protocol  who a client is that comes by a balancer
    tls             certificates, as settings name them
    tls_alert       why a handshake is refused, for the client
    own_certificate     what is shown where they name none
    certificate_watch   reads them anew when a file changes
    runtime_config  settings that are listed and changed at run time

Name servers and controllers are built of it; brokers ask others by it.
"""
