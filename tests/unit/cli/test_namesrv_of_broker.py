"""Where a broker registers: the more specific of -n, --set, its file and the environment wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rmq.cli import server
from rmq.cli.main import cli


class Started:
    """`rmq broker`, up to its start."""

    def __init__(self, folder: Path) -> None:
        self.file, self.namesrv = folder / "broker.conf", ""
        self.file.write_text("brokerName=b\n")

    def take(self, names: Any, settings: Any, shards: str | None) -> None:
        self.namesrv = settings.namesrvAddr

    def run(self, *words: str, before: tuple[str, ...] = ()) -> Result:
        done = CliRunner().invoke(cli, [*before, "broker", "-c", str(self.file), *words])
        assert done.exception is None, done.output
        return done


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Started:
    made = Started(tmp_path)
    monkeypatch.setattr(server, "_run", made.take)
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:1")
    return made


def test_the_shells_counts_least(started: Started) -> None:
    started.run()
    assert started.namesrv == "10.0.0.1:1"
    started.file.write_text("namesrvAddr=10.0.0.2:2\n")
    started.run()
    assert started.namesrv == "10.0.0.2:2"
    started.run("--set", "namesrvAddr=10.0.0.3:3")
    assert started.namesrv == "10.0.0.3:3"
    started.run("--set", "namesrvAddr=10.0.0.3:3", "-n", "10.0.0.4:4")
    assert started.namesrv == "10.0.0.4:4"
    started.run(before=("-n", "10.0.0.5:5"))
    assert started.namesrv == "10.0.0.5:5"


@pytest.mark.parametrize("key", server.NOT_ASKED)
def test_name_servers_that_nobody_looks_for_are_told(
    started: Started, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    started.file.write_text(f"{key}=true\n")
    told = f"rmq: {key}=true has no effect: this broker registers at 127.0.0.1:9876"
    assert told not in started.run().output
    monkeypatch.delenv("NAMESRV_ADDR")
    assert told in started.run().output
    assert started.namesrv == "127.0.0.1:9876"
    assert told not in started.run("-n", "10.0.0.4:4").output
