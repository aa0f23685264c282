"""A measuring run: its options, its folder, and the facts about the machine."""

import signal
from pathlib import Path

import click
import growth
import peers
import pytest
from click.testing import CliRunner
from run_options import RunOptions


def run(tmp_path: Path, **more) -> RunOptions:
    given = {"rounds": 5, "seconds": 2.0, "place": "free", "directory": tmp_path, "quick": True,
             "results": tmp_path / "x.json", "touch": True, "publish": False}  # fmt: skip
    return RunOptions(**{**given, **more})


def test_a_run_has_a_folder_while_it_lasts_and_facts_at_its_end(tmp_path: Path) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    with run(tmp_path).bench() as (bench, facts):
        assert bench.root.parent == tmp_path and bench.root.is_dir()
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
        assert "pages before" in facts and "pages after" not in facts
    assert "pages after" in facts and facts["free pages"] == "not touched before"
    assert facts["placement"] == "free" and bench.rounds == 1
    assert list(tmp_path.iterdir()) == [] and signal.getsignal(signal.SIGTERM) is handler


def test_a_run_that_ends_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), run(tmp_path).bench():
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_quick_numbers_are_not_published(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="mean nothing"):
        run(tmp_path, publish=True).bench().__enter__()


@pytest.mark.parametrize("command", [peers.main, growth.main])
def test_a_row_that_is_not_there_is_refused_with_those_that_are(command: click.Command) -> None:
    done = CliRunner().invoke(command, ["--only", "nothing"])
    assert done.exit_code == 2 and "no nothing; there are" in done.output
