"""A row of peers: their turns, the common pace, and what happens when a peer fails or lacks the
load.

The peers are made here, without servers, because only the order of a row is checked. With real
ones: tests/process/test_bench_peers.py, tests/compat/test_bench_peers.py.
"""

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import page
import peers
import pytest
from comparison import Cell, Comparison, Row, Server, Turn
from peer import Foreign, Load, NotOffered, Peer, Shape, without_paths
from peer_rows import SHAPES, measured
from rows import Bench
from servers import placed_on


class Made(Load):
    notes = ("made",)

    def __init__(self, peer) -> None:
        self.peer, self.rates, self.closed = peer, [], False

    def turn(self, seconds: float, rate: float) -> Turn:
        self.rates.append(rate)
        if len(self.rates) == self.peer.fails_at:
            raise OSError("gone")
        messages = int((rate or self.peer.speed) * seconds)
        return Turn(seconds, messages, 0.1, 1, {}, {"p50": 1.0} if rate else {})

    def close(self) -> None:
        self.closed = True


class Fake(Peer):
    title = version = client = "made"
    warm_s = 0.0
    speed, fails_at, stopped = 1000, 0, False

    def start(self) -> None:
        self.folder.mkdir()

    def stop(self) -> None:
        self.stopped = True

    def pids(self) -> list[int]:
        return []

    def settings(self) -> dict[str, str]:
        return {"store": f"{self.folder}/s"}

    def promise(self) -> str:
        return "none"

    def load(self, shape: Shape) -> Load:
        self.made = Made(self)
        return self.made


def peer(peers: list[Fake], key: str, base: type[Fake] = Fake, **more):
    kind = type(key, (base,), {"key": key, **more})

    def make(bench: Bench, sync: bool) -> Peer:
        peers.append(kind(bench, sync))
        return peers[-1]

    return make


def test_all_take_turns_and_then_the_pace_of_the_slowest(tmp_path: Path) -> None:
    made: list[Fake] = []
    makers = [peer(made, "fast", speed=9000), peer(made, "slow", speed=500)]
    row, servers = measured(Shape(name="x", title="X"), Bench(tmp_path, 3, 2.0), makers)
    assert row.pace == 250.0
    assert [len(row.cells[key].turns) for key in ("fast", "slow")] == [3, 3]
    assert [turn.rate for turn in row.cells["fast"].paced] == [250.0] * 3
    assert [each.made.rates for each in made] == [[0.0] * 3 + [250.0] * 3] * 2
    assert all(each.made.closed and each.stopped and not each.folder.exists() for each in made)
    assert row.cells["slow"].notes == ["made"] and servers["fast"].settings == {"store": "./s"}
    assert row.load["window"] == 1


def test_one_that_fails_or_has_no_such_load_does_not_stop_the_others(tmp_path: Path) -> None:
    class Without(Fake):
        def load(self, shape: Shape) -> Load:
            raise NotOffered("its tool has none")

    class Broken(Fake):
        def start(self) -> None:
            raise RuntimeError("no port")

    made: list[Fake] = []
    makers = [
        peer(made, "good"),
        peer(made, "without", Without),
        peer(made, "broken", Broken),
        peer(made, "dying", fails_at=2),
        peer(made, "silent", speed=0),
    ]
    row, servers = measured(Shape(name="x", title="X"), Bench(tmp_path, 3, 1.0), makers)
    cells = row.cells
    assert cells["good"].error == "" and len(cells["good"].paced) == 3
    assert (cells["without"].not_offered, cells["without"].error) == ("its tool has none", "")
    assert cells["broken"].error == "RuntimeError: no port"
    assert cells["dying"].error == "OSError: gone" and len(cells["dying"].turns) == 1
    assert cells["silent"].error == "RuntimeError: nothing was answered: {}"
    assert set(servers) == {"good", "without", "dying", "silent"}
    assert all(each.stopped for each in made)


def test_one_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    class Missing(Foreign):
        key = title = version = client = "missing"

        def made(self):
            raise RuntimeError("java is not installed")

        def settings(self) -> dict[str, str]:
            return {}

        def promise(self) -> str:
            return ""

        def load(self, shape: Shape) -> Load:
            raise NotOffered

    row, _ = measured(Shape(name="x", title="X"), Bench(tmp_path, 1, 1.0), [Missing])
    assert row.cells["missing"].error == "RuntimeError: java is not installed"


def test_a_shape_without_a_pace_has_no_latencies(tmp_path: Path) -> None:
    made: list[Fake] = []
    shape = Shape(name="x", title="X", paced=False)
    row, _ = measured(shape, Bench(tmp_path, 2, 1.0), [peer(made, "one")])
    assert row.pace == 0.0 and row.cells["one"].paced == []


def test_a_client_is_warmed_as_long_as_it_needs_whatever_its_server_needs(tmp_path: Path) -> None:
    class Cold(Fake):
        def load(self, shape: Shape) -> Load:
            self.made = Made(self)
            self.made.warm_s = 0.01
            return self.made

    made: list[Fake] = []
    makers = [peer(made, "cold", Cold), peer(made, "warm")]
    row, _ = measured(Shape(name="x", title="X", paced=False), Bench(tmp_path, 1, 1.0), makers)
    assert [len(each.made.rates) > 1 for each in made] == [True, False]
    assert all(len(cell.turns) == 1 for cell in row.cells.values())


def test_a_server_is_stopped_and_its_pages_forgotten_before_each_cold_turn(tmp_path: Path) -> None:
    class Kept(Fake):
        """A peer whose file nobody reads, so that only the kernel decides what stays of it in
        memory."""

        def start(self) -> None:
            self.folder.mkdir(exist_ok=True)
            (self.folder / "log").write_bytes(b"x" * (4 << 20))
            self.starts = getattr(self, "starts", 0) + 1

    made: list[Fake] = []
    shape = Shape(name="x", title="X", kind="cold", filled=10, paced=False)
    row, _ = measured(shape, Bench(tmp_path, 2, 0.1), [peer(made, "one", Kept)])
    cell = row.cells["one"]
    assert cell.error == "" and len(cell.turns) == 2 and made[0].starts == 3
    share = re.fullmatch(r"(.*)% of 4 MiB was in memory before the server started", cell.notes[0])
    assert share is not None and float(share[1]) < 50


def test_settings_are_shown_without_the_folders_of_this_machine() -> None:
    assert without_paths({"a": "/x/y/store", "b": "1"}, Path("/x/y")) == {"a": "./store", "b": "1"}


def test_names_of_rows_can_be_topics_and_titles_tell_them_apart() -> None:
    assert len({shape.title for shape in SHAPES.values()}) == len(SHAPES)
    assert all(name.replace("-", "").isalnum() for name in SHAPES)
    for shape in SHAPES.values():
        assert shape.sync == shape.title.startswith("SYNC_FLUSH")
    with pytest.raises(TypeError):
        Shape("x", "y")  # type: ignore[misc]


def asked(name: str) -> dict[str, Any]:
    """The shape as the JSON has it."""
    return msgspec.to_builtins(SHAPES[name])


def test_a_run_that_goes_on_keeps_rows_without_an_error_whose_load_is_the_same() -> None:
    before = Comparison({"time": "2026-01-02T03:04:05+0000"}, "abcdef012345", 5, 3.0)
    before.servers = {"rmq": Server("rmq", "1", "C", "none")}
    before.rows = [
        Row("single-256", "1 x 64", asked("single-256"), {"rmq": Cell([Turn(1.0, 9, 0.1, 1)])}),
        Row("many-256", "64 x 1", asked("many-256"), {"rmq": Cell(error="gone")}),
        Row("one-256", "1 x 1", asked("one-256"), {"rmq": Cell()}, measured="earlier, commit 123"),
        Row("pull-256", "8 x 1", asked("pull-256") | {"connections": 8}, {"rmq": Cell()}),
        Row("gone-256", "gone", asked("pull-256"), {"rmq": Cell()}),
    ]
    machine = {"time": "2026-01-03T03:04:05+0000", "cpus": 2, "cpu": "one"}
    found = Comparison(machine, "fedcba543210", 5, 3.0)
    peers.keep(found, before)
    assert [row.name for row in found.rows] == ["single-256", "one-256"]
    assert found.rows[0].measured == "2026-01-02T03:04, commit abcdef012345"
    assert found.rows[1].measured == "earlier, commit 123"
    assert found.servers == before.servers
    assert "Measured 2026-01-02T03:04, commit abcdef012345:\n1 x 64." in page.html(found)


def test_a_free_shape_gives_load_and_servers_all_processors(tmp_path: Path) -> None:
    everywhere = os.sched_getaffinity(0)
    first, *others = sorted(everywhere)
    found: list[set[int]] = []

    class Seen(Fake):
        def start(self) -> None:
            super().start()
            found.append(set(self.bench.places(self.sync)))

        def load(self, shape: Shape) -> Load:
            found.append(os.sched_getaffinity(0))
            return super().load(shape)

    bench = Bench(tmp_path, 1, 1.0, cpus=others or [first], all_cpus=sorted(everywhere))
    shape = Shape(name="x", title="X", paced=False)
    with placed_on([first]):
        for is_free in (False, True):
            measured(msgspec.structs.replace(shape, free=is_free), bench, [peer([], "one", Seen)])
        assert os.sched_getaffinity(0) == {first}
    assert found == [set(others) or {first}, {first}, everywhere, everywhere]
