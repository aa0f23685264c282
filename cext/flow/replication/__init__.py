"""Replication: the log on its way to slaves, and from the master.

    ha_service      this core's state on both sides; settings, memory, numbers
    ha_socket       a replica's socket becomes a connection, over TLS or plain
    ha_protocols    the callbacks for what comes on these connections
    ha_connections  as master: which slaves follow, and how far each is
    ha_sync_state_set  as master: whose acks an answer waits for, and what consumers see
    ha_epochs       where in the log each mastership began
    ha_lease        as master: until when it may acknowledge
    ha_sender       as master: what was written leaves for each slave in the same turn
    ha_client       as slave: the master's bytes become this core's log, and it reports how far

What goes over the wire is described in cext/wire. Who is master is not decided here.
"""
