"""Takeover: a running master's log, tables, name and clients are taken over by a broker of rmq.

    old_master.py    the broker that is replaced: asks it questions, and stops its sends
    freeze.py        the time in which the old master takes no sends, and whether it was interrupted
    stop_command.py  the operator's command that ends the old master, if there is one
    earlier_copy.py  whether a store is a copy of the old master from an earlier try
    slave.py         a slave of the old master, a child process on the new store
    carried.py       which settings of the old master the new one takes over
    old_log.py       messages that only the old master's files hold
    switch.py        the order of steps between the last send there and the first one here

Each broker of a cluster is taken over separately. The old one may be Apache RocketMQ or rmq.
"""
