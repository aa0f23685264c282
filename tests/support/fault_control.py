"""Fault control: gives a forked process, which began before its test, the test's faulty disk
(faults.py). Servers import this module, so it does not import pytest."""

from __future__ import annotations

import ctypes
import os


def map_control() -> None:
    """Maps the control file that the environment names."""
    if "RMQ_FAULTIO" in os.environ:
        ctypes.CDLL(None).faultio_map_control()
