"""Several shards on one machine: processes, their places, and the bus that makes them one broker.

supervisor          starts, watches, restarts, drains and stops the shard processes
placement           which core, node, port and store each shard has; rmq/system keeps it there
bus                 ZeroMQ between them: messages.py (what is said), bus_router.py (the
                    supervisor's end), bus_client.py (a shard's), command_client.py (a command's)
registry            the versioned table behind it: whatever is lost or comes twice, heals
"""
