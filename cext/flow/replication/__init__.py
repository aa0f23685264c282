"""Replication: the log on its way to slaves, and from the master.

    ha_service      what this core has of both sides; settings, memory, numbers
    ha_socket       a replica's socket becomes a connection, by TLS or plain
    ha_protocols    who is called for what comes on their connections
    ha_connections  as master: who follows, and how far each is
    ha_sync_state_set  as master: whose acks an answer waits for, and what consumers see
    ha_epochs       where in the log each master began
    ha_lease        as master: until when it may acknowledge
    ha_sender       as master: what was written leaves for each of them in the same turn
    ha_client       as slave: the master's bytes become this core's log; how far it is is said

What is said on the wire is a page of cext/wire. Who is master is not decided here.
"""
