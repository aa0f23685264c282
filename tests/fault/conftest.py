"""Fixtures of the fault tests: a disk that fails on demand (support/faults.py)."""

from support.faults import fault_shim, faults

__all__ = ["fault_shim", "faults"]
