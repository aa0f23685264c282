"""What tests of many cases rely on: other cases in each run, the same for all its workers
(support/volume.py), and the name of the one that failed (support/case.py).
"""

import os
import runpy

import pytest
from hypothesis import settings
from support import volume
from support.case import case

from rmq.errors import ProtocolError


def test_hypothesis_draws_other_examples_each_time_where_ci_is_set_too() -> None:
    settings.load_profile("ci")  # as Hypothesis does by itself where CI is set
    try:
        there = volume.profile()
    finally:
        settings.load_profile("rmq")
    for each in (there, settings.default):
        assert not each.derandomize
        assert each.deadline is None
        assert each.database is not None, "what failed once would be forgotten"


def test_seeds_begin_by_chance_and_go_on_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    firsts = set()
    for _ in range(5):
        monkeypatch.delenv("RMQ_FIRST_SEED")
        firsts.add(runpy.run_path(volume.__file__)["FIRST_SEED"])
        assert os.environ["RMQ_FIRST_SEED"] in map(str, firsts), "workers would have others"
    assert len(firsts) > 1


def test_a_failure_is_repeated_by_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert volume.seeds(3)[0] == int(os.environ["RMQ_FIRST_SEED"])
    monkeypatch.setenv("RMQ_FIRST_SEED", "4711")
    assert runpy.run_path(volume.__file__)["FIRST_SEED"] == 4711


@pytest.mark.parametrize(
    "error", [AssertionError("no"), KeyError("no"), ImportError("no"), ProtocolError("no")]
)
def test_a_case_that_raises_is_named(error: Exception) -> None:
    with pytest.raises(AssertionError, match=rf"^34 of a: {type(error).__name__}: .*no") as raised:
        for code in (33, 34, 35):
            with case(f"{code} of a"):
                if code == 34:
                    raise error
    assert raised.value.__cause__ is error
