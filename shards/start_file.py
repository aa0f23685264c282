"""Start file: what a shard is started with, and how it ends when it cannot start.

STORE/bus/shard-INDEX.json holds a StartFile, STORE/bus/shard-INDEX.why the reason of a failed
start.
"""

from __future__ import annotations

import msgspec

# Exit codes of a shard that has written its reason: its settings cannot be used; anything else.
REFUSED, FAILED = 3, 4


class StartFile(msgspec.Struct, frozen=True):
    values: dict[str, str]  # its settings by RocketMQ's names, as text
    token: str  # the secret of the bus
    digest: str  # of all the rest, by which a new supervisor sees whether it wants the same
    cpus: list[int]  # of the reactor
    node_cpus: list[int]  # of the other threads
    node: int  # preferred memory; -1: none
