"""Replication: this broker as master of its slaves, or as slave of its master.

    replication      what the broker starts and stops: one of the two sides
    role             the role that the settings give this broker
    bootstrap        before a slave's store is opened: whose slave it is, where its log begins, and
                     whether it may have lost its end
    master_search    where the master is, and what it says of itself
    ha_port          as master: which addresses may have the log
    ha_socket        a connection between replicas, while the control thread has it
    tail_checksum    the last bytes of a slave's log, which its master compares
    ha_client        as slave: connects to the master for the log, again after each break
    metadata_copy    as slave: topics, groups, offsets, modes, pop orders as the master has them
    account_requests  as slave: how it asks for the master's accounts; as master: whether to answer
    exchange         what a slave asks its master for, and how it is told of changes
    ha_status        both sides for people: who follows, how far, and what is wrong

Where a controller decides who is master (enableControllerMode):

    identity                which replica of its brokerName this broker is; two files
    epochs                  which mastership wrote which part of the log, and where two logs part
    epoch_file              the file that keeps the epochs
    ha_handshake            what master and slave say to each other before the log flows
    sync_state              who is in sync, as the master sees it
    controller_addresses    where the controllers are
    controller_link         questions to the controller that leads, and its answers
    controller_heartbeats   tells all controllers that this replica lives, and how far its log is
    controlled_role         asks who is master, from the start of this broker to its stop
    role_changes            carries out what the controller decided, one thing after the other
    controlled_replication  how a role is taken: at the core, its streams, tables and settings
    log_epochs              the epochs of this log, on the disk and in the core
    lost_end                remembers that this log has lost its end, or may have, until it is whole
    sync_watch              as master: lets slaves join and leave the sync state set
    retry_backoff           how soon an undecided question is put to the controller again
    sync_state_proposal     which set to ask the controller for, and which never
    waiting_sends           as a new master: sends that come before it can promise anything

The log itself goes from reactor to reactor (cext/flow/replication). This folder opens the sockets,
and copies the tables, which are not in the log.
"""
