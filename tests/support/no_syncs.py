"""Syncs of files that are no waits, for folders of tests without a power cut.

    from support.no_syncs import no_syncs       # in the conftest.py of a folder

What a kill leaves is in the system's memory, synced or not. A start and a stop of a broker's
control side sync its tables some ten times, which is two fifths of what they cost. tests/fault is
about power cuts, and the core syncs its files as ever.
"""

import os

import pytest


@pytest.fixture(autouse=True)
def no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Python; what is no open file is an error all the same."""
    monkeypatch.setattr(os, "fsync", os.fstat)
