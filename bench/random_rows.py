"""Random rows: messages with random bodies in a topic, to be read in several ways.

    send_rows("127.0.0.1:9876", "bench", queues=2, rows=1_000_000, size=1024)

Bodies are random because Parquet would store equal bodies as a dictionary of one entry.
"""

import os

from rmq.arrow.access import Access
from rmq.arrow.options import write_options
from rmq.arrow.sender import Sender
from rmq.client.blocking.admin import create_topic
from rmq.client.blocking.cluster import Cluster

POOL_BYTES = 32 << 20  # each body is a piece of the pool


def send_rows(namesrv: str, topic: str, queues: int, rows: int, size: int) -> None:
    """Creates the topic and sends the rows; returns when all of them are stored."""
    with Cluster(namesrv) as cluster:
        create_topic(cluster, topic, queues)
    options = write_options({"nameserver": namesrv, "topic": topic})
    sender = Sender(options, Access.of(options))
    pool = os.urandom(POOL_BYTES)
    for at in range(rows):
        start = at * 7919 % (len(pool) - size)
        sender.add(topic, None, b"UNIQ_KEY\1%032X\2" % at, pool[start : start + size])
    sender.flush()
    sender.close()
