"""Memory report: how a shard's memory was placed at its start, as log lines."""

import logging
import os
from collections.abc import Mapping

log = logging.getLogger("rmq.broker.memory_report")


def log_memory(counters: Mapping[str, int]) -> None:
    """Logs it from ShardCore.stats(). Memory that is not locked, or not local, only costs speed."""
    if counters.get("memory_node_error"):
        log.warning(
            "buffers come from any NUMA node, not from the shard's own: %s",
            os.strerror(counters["memory_node_error"]),
        )
    elif counters.get("memory_node", -1) >= 0:
        log.debug("buffers come from NUMA node %d", counters["memory_node"])
    loose = []
    if not counters.get("ring_locked", 1):
        loose.append(f"the write buffer of {counters['log_ring_bytes'] >> 20} MiB")
    if counters.get("memory_lock_error"):
        loose.append(f"other buffers ({os.strerror(counters['memory_lock_error'])})")
    if loose:
        log.info(
            "not locked in memory: %s; under memory pressure they may be swapped out. Raise "
            "`ulimit -l`, in a systemd unit LimitMEMLOCK=infinity", " and ".join(loose),
        )  # fmt: skip
