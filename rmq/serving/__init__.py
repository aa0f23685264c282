"""Serving: the remoting protocol on sockets of an asyncio loop, for processes that hold no store.

    acceptor        a listening socket that never spins for want of descriptors
    listener        the connections of one port, and their limits
    connection      one client: bytes -> frames -> requests -> replies, in order
    one_way         a frame to an address, which nobody answers
    runtime_config  settings that are listed and changed at run time
"""
