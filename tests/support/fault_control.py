"""The faulty disk (faults.py) of a process that began before its test did; without pytest, which no
server reads."""

from __future__ import annotations

import ctypes
import os


def map_control() -> None:
    """The control file that the environment names."""
    if "RMQ_FAULTIO" in os.environ:
        ctypes.CDLL(None).faultio_map_control()
