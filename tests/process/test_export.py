"""Goal: an export has each message of a topic, and an import sends each message of the file: once,
whole, with tag, keys and properties. A file is whole or not there; errors name what is wrong.

Method: the commands against a broker. Cannot prove: files that other programs made.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker_pair import SMALL
from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq as run
from support.small_disk import SmallDisk, small_disk
from support.spark_topics import fill, make
from support.waiting import HANG_S

import rmq
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode

pa = pytest.importorskip("pyarrow")

__all__ = ["small_disk"]
COUNT = 50


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("export"), SMALL) as started:
        bodies = {queue: [b"%d:%d" % (queue, at) for at in range(COUNT)] for queue in range(2)}
        fill(started, "orders", bodies, tags="paid", keys="k1 k2", properties={"region": "eu"})
        fill(started, "binary", {0: [b"\xff\xfe", "grün".encode()]})
        yield started


@pytest.fixture(autouse=True)
def namesrv(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)


def done(*words: object, text: str = "") -> str:
    result = run(*map(str, words), text=text)
    assert result.returncode == 0, result.stderr
    return result.stdout


def failed(*words: object, text: str = "") -> str:
    result = run(*map(str, words), text=text)
    assert result.returncode != 0
    return result.stderr


def messages(topic: str) -> list[tuple[Any, ...]]:
    table = rmq.read_table(topic)
    rows = [(row["body"], row["tags"], row["keys"], dict(row["properties"]).get("region"))
            for row in table.to_pylist()]  # fmt: skip
    return sorted(rows)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl"])
def test_there_and_back(broker: BrokerProcess, tmp_path: Path, ending: str) -> None:
    """An exported topic that is imported into another one gives the same messages."""
    path = tmp_path / f"orders.{ending}"
    assert done("export", "orders", path) == f"{path}: {2 * COUNT} messages of orders\n"
    assert os.listdir(tmp_path) == [path.name]
    make(broker, f"back-{ending}", 3)
    said = done("import", path, f"back-{ending}")
    assert said == f"back-{ending}: {2 * COUNT} messages from {path}\n"
    assert messages(f"back-{ending}") == messages("orders")


def test_other_programs_read_it(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    done("export", "orders", tmp_path / "o.parquet", "--column", "queueOffset", "--column", "body",
         "--text")  # fmt: skip
    table = parquet.read_table(tmp_path / "o.parquet")
    assert table.schema == pa.schema([("queueOffset", pa.int64()), ("body", pa.string())])
    assert table["body"].to_pylist()[:2] == ["0:0", "0:1"]
    done("export", "orders", tmp_path / "file", "--format", "arrow")
    with pa.memory_map(str(tmp_path / "file")) as source:
        assert pa.ipc.open_file(source).read_all().num_rows == 2 * COUNT


def test_the_kind_of_a_file_by_either_name(tmp_path: Path) -> None:
    lines = done("export", "orders", "-", "--to", "jsonl")
    done("export", "orders", tmp_path / "rows", "--format", "jsonl")
    assert (tmp_path / "rows").read_text() == lines


def test_lines_are_those_of_consume() -> None:
    exported = [json.loads(line) for line in done("export", "binary", "-").splitlines()]
    consumed = [json.loads(line) for line in done("consume", "binary", "--json").splitlines()]
    assert exported == consumed and {"body_base64", "body"} <= {*exported[0], *exported[1]}


def test_times_that_no_calendar_has_are_numbers(broker: BrokerProcess) -> None:
    """A sender may write any number as the time of a message. If no calendar has that time, lines
    have only the number. The last one here is more than a column of microseconds can hold."""
    make(broker, "absurd", 1)
    born = [1_763_726_400_123, 10**15, 1 << 62]
    fields: dict[str, Any] = {
        "a": "p", "b": "absurd", "c": "TBW102", "d": 4, "e": 0, "f": 0, "h": 0, "i": "", "j": 0,
        "k": False,
    }  # fmt: skip
    with Connection(broker.address) as connection:
        for ms in born:
            connection.call(RequestCode.SEND_MESSAGE_V2, {**fields, "g": ms}, b"x")
    rows = [json.loads(line) for line in done("export", "absurd", "-").splitlines()]
    assert [row["born_ms"] for row in rows] == [*born[:2], (1 << 63) // 1000]
    assert [row["born"] for row in rows] == ["2025-11-21T12:00:00.123Z", None, None]


def test_a_part_of_it(tmp_path: Path) -> None:
    """Offsets, times, tags and SQL choose the messages of an export."""
    path = tmp_path / "o.jsonl"

    def offsets(*options: str) -> list[int]:
        done("export", "orders", path, *options)
        return [json.loads(line)["offset"] for line in path.read_text().splitlines()]

    assert offsets("--from", "-3") == [COUNT - 3, COUNT - 2, COUNT - 1] * 2
    assert offsets("--from", "5:7") == [5, 6] * 2
    assert offsets("--tag", "other") == []
    assert len(offsets("--sql", "region = 'eu'")) == 2 * COUNT
    assert offsets("--until", "2020-01-01") == []


def test_rows_from_a_pipe_and_ids_that_are_known(broker: BrokerProcess) -> None:
    """Rows can come from standard input. With --id-prefix, rows that are imported again have the
    same ids again."""
    make(broker, "piped", 1)
    lines = "".join(f'{{"body": "{at}", "keys": ["a", "b"]}}\n\n' for at in range(3))
    for _ in range(2):
        assert "piped: 3 messages" in done("import", "-", "piped", "--id-prefix", "p", text=lines)
    table = rmq.read_table("piped", text=True)
    assert table["body"].to_pylist() == ["0", "1", "2"] * 2
    assert len(set(table["uniqueKey"].to_pylist())) == 3
    assert table["keys"].to_pylist() == ["a b"] * 6


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    bad = '{"body": "a"}\n{"body": 7}\n'
    assert "line 2: the body is not text" in failed("import", "-", "binary", text=bad)
    many = '{"body": "a"}\n' * 5000 + "bad\n"
    said = failed("import", "-", "binary", text=many)
    assert "line 5001: not JSON" in said
    assert "of the 4096 rows before, some or all may be stored" in said
    import pyarrow.parquet as parquet

    rows = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"body": ["a", None]}), rows)
    assert "row 1: a row without body" in failed("import", rows, "binary")
    parquet.write_table(pa.table({"text": ["a"]}), rows)
    assert "column text has no meaning in a message" in failed("import", rows, "binary")
    (tmp_path / "no.parquet").write_bytes(b"PAR1 it is not")
    assert "not a parquet file" in failed("import", tmp_path / "no.parquet", "binary")
    assert "No such file" in failed("import", tmp_path / "gone.jsonl", "binary")
    assert "unknown ending: use .parquet" in failed("export", "orders", tmp_path / "x.csv")
    assert "name a file" in failed("export", "orders", "-", "--format", "parquet")
    assert "--column and --text are for" in failed("export", "orders", "-", "--text")


def test_what_is_there_is_written_as_what_it_is(tmp_path: Path) -> None:
    """An export to a link, a pipe, a device or a private file leaves it what it was."""
    kept = tmp_path / "kept.jsonl"
    kept.write_text("before")
    kept.chmod(0o600)
    (tmp_path / "link.jsonl").symlink_to(kept)
    done("export", "orders", tmp_path / "link.jsonl")
    assert (tmp_path / "link.jsonl").is_symlink() and stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert len(kept.read_text().splitlines()) == 2 * COUNT
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    done("export", "orders", pipe)
    reader.join(HANG_S)
    assert read == [kept.read_bytes()] and pipe.is_fifo()
    assert "is a directory: name a file" in failed(
        "export", "orders", tmp_path, "--format", "arrow"
    )
    assert done("export", "orders", "/dev/null", "--format", "jsonl").startswith("/dev/null: 100")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text("as it was")
    # -B: the limit would cut off files of bytecode, too, and they would stay.
    limited = ["/bin/sh", "-c", 'ulimit -f 4 && exec "$0" "$@"', sys.executable, "-B", "-m", "rmq"]
    for name in ("kept.jsonl", "new.arrow"):
        ended = subprocess.run(
            [*limited, "export", "orders", str(tmp_path / name)], capture_output=True, text=True
        )
        assert ended.returncode == 1
        assert re.search(f"rmq: .*{name}: .*; nothing was written", ended.stderr), ended.stderr
    assert os.listdir(tmp_path) == ["kept.jsonl"] and path.read_text() == "as it was"


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl"])
def test_a_full_disk_leaves_what_was_there(
    broker: BrokerProcess, small_disk: SmallDisk, ending: str
) -> None:
    """An export that does not fit leaves the old file and no new one. Once there is room, the same
    command succeeds."""
    topic = f"large-{ending}"
    fill(broker, topic, {0: [os.urandom(3000) for _ in range(400)]})
    path = small_disk.path / f"kept.{ending}"
    done("export", "orders", path)
    before = path.read_bytes()
    small_disk.fill(leave=64 << 10)
    for name in (path.name, f"new.{ending}"):
        said = failed("export", topic, small_disk.path / name)
        assert "No space left on device" in said and "nothing was written" in said
        assert name in said
    assert sorted(os.listdir(small_disk.path)) == ["ballast", path.name]
    assert path.read_bytes() == before
    small_disk.free()
    assert done("export", topic, path).startswith(f"{path}: 400 messages")
    assert path.stat().st_size > 400 * 3000
