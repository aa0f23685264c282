"""Several shards on one machine: processes, their places, and the bus that makes them one broker.

supervisor          starts, watches, restarts, drains and stops the shard processes
placement, pinning  which core, node, port and store each shard has, and keeping it there
bus                 ZeroMQ between them: messages.py (what is said), hub.py (supervisor's end),
                    link.py (a shard's end), client.py (a command's end)
registry            the versioned table behind it: whatever is lost or comes twice, heals
"""
