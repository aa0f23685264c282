"""Fixtures of the fault tests: a disk that fails on demand (support/faults.py), a small disk, and a
disk whose power can be cut."""

from support.faults import fault_shim, faults
from support.faulty_shard import start
from support.loop_disk import loop_disk
from support.small_disk import small_disk

__all__ = ["fault_shim", "faults", "loop_disk", "small_disk", "start"]
