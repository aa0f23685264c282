"""Fixtures of the fault tests: a disk that fails on demand (support/faults.py), a small one."""

from support.faults import fault_shim, faults
from support.small_disk import small_disk

__all__ = ["fault_shim", "faults", "small_disk"]
