"""Several shards on one machine: processes, their places, and the bus that makes them one broker.

The supervisor's process

    supervisor_process  `rmq broker --shards N`: settings in, until SIGTERM
    supervisor          starts, watches, restarts, drains and stops the shard processes
    shard               one shard as the supervisor has it: process, state, attempts
    placement           which core, node, port and store each shard has
    registry            topics, groups and settings that shards share, by their stamps
    initial_tables      the topics and groups of a shard that is added
    commands            what a command may have done: status, drain, restart, shrink
    shards_file         how many shards a store has: config/shards.json

A shard's process

    shard_process       python -m shards.shard_process: a broker, and its end of the bus
    start_file          what it is started with, and why it could not start
    bus_siblings        between the broker's tables and the bus
    group_members       which consumers of a group are connected to which shard
    unconsumed_messages what would be out of reach if the shard went

The bus: ZeroMQ sockets in the store's directory

    messages            what is said on it, and its version
    bus_router          the supervisor's end
    bus_client          a shard's end
    command_client      a command's end
    bus_socket          a ZeroMQ socket on an asyncio loop
    bus_files           where the sockets and the token are

No message of a user passes the bus, but for a reply (324, 325) whose producer is connected to
another shard.
"""
