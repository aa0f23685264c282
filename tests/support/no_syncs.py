"""No syncs: makes syncs of files free, for folders of tests that have no power cuts.

    from support.no_syncs import no_syncs       # in the conftest.py of a folder

After a kill, unsynced bytes are still in the system's memory, so these tests do not need syncs. A
start and a stop of a broker's control side sync its tables some ten times, which is two fifths of
their cost. tests/fault tests power cuts; the core always syncs its files.
"""

import os

import pytest


@pytest.fixture(autouse=True)
def no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces Python's syncs. A sync of a descriptor that is not open still fails."""
    monkeypatch.setattr(os, "fsync", os.fstat)
