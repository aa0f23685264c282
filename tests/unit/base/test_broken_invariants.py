"""A broken invariant ends the process and says which, with its values. Each kind is planted."""

import signal
import subprocess
import sys

import pytest
from support.source_tree import ROOT

from cext._build import PROFILE

CASES = [
    ("watermark", "a mark never moves back (12, 9)"),
    ("committable", "the store pool: `committable` never moves back (500, 400)"),
    ("state", "to 2 from 0 alone (1, 2)"),
    ("repair", "queue repair: looked at, written, over, free (0, 3)"),
    ("ring", "a ring of 8 (8, 8)"),
    ("release", "a buffer pool: no more buffers come back than were taken (0, 64)"),
    ("thread", "its thread alone ("),
    ("chain", "a chain: an entry that leaves is in it (0, 0)"),
]
DEBUG_CASES = [
    ("release_of_two", "a buffer pool: a buffer is released once (0, 1)"),
    ("pool_thread", "a buffer pool: a buffer is taken by the pool's thread ("),
]


def planted(kind: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", f"from cext.testing.broken_invariant import plant; plant({kind!r})"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(("kind", "text"), CASES, ids=[kind for kind, _ in CASES])
def test_a_broken_invariant_ends_the_process(kind: str, text: str) -> None:
    code, said = planted(kind)
    assert code == -signal.SIGABRT, said
    line = next(line for line in said.splitlines() if line.startswith("rmq: "))
    assert line.startswith(f"rmq: broken invariant: {text}")
    assert line.endswith("; the process ends")


@pytest.mark.parametrize(("kind", "text"), DEBUG_CASES, ids=[kind for kind, _ in DEBUG_CASES])
def test_a_debug_build_sees_more(kind: str, text: str) -> None:
    code, said = planted(kind)
    if PROFILE in ("debug", "asan"):
        assert code == -signal.SIGABRT, said
        assert f"rmq: broken invariant: {text}" in said
    else:
        assert (code, said) == (0, "")
