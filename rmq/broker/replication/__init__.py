"""Replication: this broker as master of its slaves, or as slave of its master.

    replication      what the broker starts and stops: one of the two sides
    role             what the settings say of it
    bootstrap        before a slave's store is opened: whose slave it is, and where its log begins
    master_search    where the master is, and what it says of itself
    ha_port          as master: who may have the log, by address
    ha_socket        a connection between replicas, while the control thread has it
    tail_checksum    the last bytes of a slave's log, which its master compares
    ha_client        as slave: the connection that the log comes by, again and again
    metadata_copy    as slave: topics, groups, offsets, modes, pop orders as the master has them
    account_requests  as slave: what is said for the master's accounts; as master: whether it counts
    exchange         what a slave asks its master for, and is told when it has changed
    ha_status        both sides for people: who follows, how far, and what is wrong

What of it a controller decides (enableControllerMode):

    identity                which replica of its brokerName this broker is; two files
    epochs                  which mastership wrote which part of the log, and where two logs part
    epoch_file              where that is kept
    ha_handshake            what master and slave say to each other before the log flows
    sync_state              who is in sync, as the master sees it
    controller_addresses    where the controllers are
    controller_link         what is asked of the one that leads, and what it answers
    controller_heartbeats   to all of them: this replica lives, and how far it is
    controlled_role         from the first question to the last: who is master
    role_changes            what is done of that, one thing after the other
    controlled_replication  how: at the core, its streams, tables and settings
    log_epochs              the epochs of this log, on the disk and in the core
    lost_end                what this log once had and has not, until it is back
    sync_watch              as master: slaves join and leave the sync state set
    retry_backoff           how soon it is asked again what it did not decide
    sync_state_proposal     which set the controller is asked for when it does not take another
    waiting_sends           as a new master: sends that come before it is complete

The log itself goes from reactor to reactor (cext/flow/replication). Here are sockets that are
opened, and tables, which are in no log.
"""
