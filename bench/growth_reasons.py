"""Reasons: why the curve of a message's cost bends where it does, as written text for the page.

There is one for each dimension (bench/dimensions.py), from what the code does and what was
measured. A reason must be written anew when its dimension, or the measured curve, changes.
"""

REASONS = {
    "queues": """
        A message writes one entry of its queue, into memory of that queue's own. Its work stays
        the same; with some thousand queues that memory is no longer in the processor's caches,
        and each write of a queue's file has fewer entries in it.
    """,
    "idle": """
        An idle connection is a descriptor that epoll does not name: for a message nothing walks
        over it. What grows is a look at each once a second, for those that have been silent too
        long.
    """,
    "busy": """
        As many sends are open at all sizes. One connection brings many of them in one read and
        takes their answers in one write; where each send has a connection of its own, each
        message pays for its read and its write in the kernel, which costs more than all the rest.
    """,
    "backlog": """
        A send touches the ends of the log, of its queue and of the index. What lies before is not
        looked at, however much it is.
    """,
    "body": """
        Up to some hundred bytes the request's header is most of the work. From some KiB on it is
        bytes: each is received, checked (CRC), copied into the log's buffer and written to new
        pages of the file, so the cost is proportional to the size. A byte of some MiB has left the
        caches between two of these, and costs more again.
    """,
    "groups": """
        A group is a place in a queue: all read the same records from the same buffers. Here all
        groups ask on the same connections, so that more of them have more pulls in a turn, and a
        message that is delivered gets cheaper.
    """,
    "shards": """
        Shards share nothing for a message. The same load over more of them has smaller turns in
        each, so that fewer messages share a turn's fixed cost, and beside them are a supervisor
        and a control thread each. Where there are more shards than processors, they also wait for
        each other.
    """,
    "properties": """
        Properties are bytes of the JSON header: they are received, searched for those that the
        broker knows, and copied into the record.
    """,
}
