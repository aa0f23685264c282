"""Takeover: a running master's log, tables, name and clients are taken over by a broker of rmq.

    old_master.py    the broker that is to be replaced: what it says, and that it takes no sends
    freeze.py        the time in which it takes none, and whether that was interrupted
    stop_command.py  what ends it, if the operator gave a command
    earlier_copy.py  whether a store is a copy of it from an earlier try
    slave.py         a slave of it, a child process on the new store
    carried.py       which of its settings the new master has
    old_log.py       what its files hold that nobody else has
    switch.py        the order of things between the last send there and the first one here

Each broker of a cluster is taken over by itself. The old one may be Apache RocketMQ's or ours.
"""
