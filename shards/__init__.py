"""Several shards on one machine: processes, their places, and the bus that makes them one broker.

The supervisor's process

    supervisor_process  `rmq broker --shards N`: settings in, until SIGTERM
    supervisor          starts, watches, restarts, drains and stops the shard processes
    shard               one shard as the supervisor sees it: process, state, attempts
    placement           which core, node, port and store each shard has
    registry            topics, groups and settings that shards share, by their stamps
    initial_tables      the topics and groups of a shard that is added
    commands            what a command may ask of the supervisor: status, drain, restart, shrink
    shards_file         how many shards a store has: config/shards.json

A shard's process

    shard_process       python -m shards.shard_process: a broker, and its end of the bus
    start_file          what a shard is started with, and why it could not start
    bus_siblings        joins the broker's tables to the bus
    group_members       which consumers of a group are connected to which shard
    unconsumed_messages messages that would be out of reach if the shard were removed

The bus: ZeroMQ sockets in the store's directory

    messages            what is said on the bus, and the version of these messages
    bus_router          the supervisor's end
    bus_client          a shard's end
    command_client      a command's end
    bus_socket          a ZeroMQ socket on an asyncio loop
    bus_files           where the sockets and the token are

Users' messages do not pass over the bus, with one exception: a reply (324, 325) whose producer is
connected to another shard.
"""
