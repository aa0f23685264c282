"""`rmq store`: what it says and how it ends, on stores that are sound, damaged, in use, or no
stores."""

import fcntl
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.keyed_log import ENTRIES, SLOTS, KeyedLog
from support.store_image import PER_FILE, StoreImage

from rmq.cli.main import cli

QUEUE_ENTRY = struct.Struct(">qiq")


@pytest.fixture
def image(tmp_path: Path) -> StoreImage:
    """A store of 600 records with their queues, stopped cleanly."""
    made = StoreImage(tmp_path / "store").add_many(600)
    return made.write_log().write_queues().checkpoint_at(600, queue_count=6)


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["store", *map(str, words)])


def test_a_sound_store_is_sound(image: StoreImage) -> None:
    result = run("check", image.root)
    assert result.exit_code == 0
    assert "600 records" in result.output
    assert result.output.endswith("sound\n")


def test_a_damaged_store_names_places_and_ends_with_1(image: StoreImage) -> None:
    bad = image.records[5]
    image.patch_log(bad.offset + 4, b"\0")
    result = run("check", image.root, "--limit", 1)
    assert result.exit_code == 1
    assert f"{image.segment_path(0)}  {bad.offset} " in result.output
    assert "... and 1 more\n" in result.output
    report = json.loads(run("check", image.root, "--json").output)[str(image.root)]
    assert report["problems"][0]["offset"] == bad.offset


def test_the_stores_of_all_shards_are_checked(image: StoreImage) -> None:
    shard = StoreImage(image.root / "shard-1").add_many(600)
    shard.write_log().write_queues().checkpoint_at(600, queue_count=6)
    shard.patch_log(shard.records[5].offset + 4, b"\0")
    result = run("check", image.root)
    assert result.exit_code == 1
    assert f"{image.root}: " in result.output
    assert f"{shard.root}: " in result.output


def test_what_is_no_store_ends_with_2_and_no_trace(tmp_path: Path) -> None:
    for command in ("check", "dump"):
        result = subprocess.run(
            [sys.executable, "-m", "rmq", "store", command, str(tmp_path)],
            capture_output=True, text=True,
        )  # fmt: skip
        assert result.returncode == 2, result
        assert "not a store" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_held_is_refused_by_name_unless_looked_at_live(image: StoreImage) -> None:
    lock = image.root / "lock"
    lock.write_text("lock")
    descriptor = os.open(lock, os.O_RDWR)
    fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, 0)
    command = [sys.executable, "-m", "rmq", "store", "check", str(image.root)]
    refused = subprocess.run(command, capture_output=True, text=True)
    looked = subprocess.run([*command, "--live"], capture_output=True, text=True)
    os.close(descriptor)
    assert refused.returncode == 4
    assert f"is held by process {os.getpid()} (" in refused.stderr
    assert "--live" in refused.stderr
    assert looked.returncode == 0, looked
    assert looked.stdout.endswith("sound\n")


def test_a_check_writes_nothing(image: StoreImage) -> None:
    def files() -> dict[str, int]:
        return {
            str(path): path.stat().st_mtime_ns for path in image.root.rglob("*") if path.is_file()
        }

    before = files()
    assert run("check", image.root).exit_code == 0
    assert run("dump", image.root).exit_code == 0
    assert files() == before


def test_a_dump_of_a_store_lists_its_parts(image: StoreImage) -> None:
    output = run("dump", image.root).output
    assert "commitlog" in output
    parts = {row["what"]: row for row in json.loads(run("dump", image.root, "--json").output)}
    topic, queue_id = os.fsdecode(image.records[0].topic), image.records[0].queue_id
    queue = parts[f"consumequeue/{topic}/{queue_id}"]
    held = sum((r.topic, r.queue_id) == (image.records[0].topic, queue_id) for r in image.records)
    assert (queue["first"], queue["last"]) == ("#0", f"#{held}")
    assert parts["commitlog"]["first"] == "0"
    assert "stopped cleanly" in parts


def test_a_dump_of_a_file_shows_its_rows(image: StoreImage) -> None:
    segment = image.segment_path(0)
    lines = run("dump", segment, "--count", 3, "--bodies").output.splitlines()
    assert lines[0].startswith(f"0 {len(image.records[0].data)} topic-0/0 #0 ")
    assert len(lines) == 3
    at, left = image.blanks[0]
    assert run("dump", segment, "--from", at).output == f"{at} blank {left}\n"
    queue = image.queue_directory / "topic-0" / "0" / f"{0:020d}"
    assert len(queue.read_bytes()) == PER_FILE * QUEUE_ENTRY.size
    assert json.loads(run("dump", queue, "--json", "--count", 1).output) == {
        "offset": 0, "physical_offset": 0, "size": len(image.records[0].data), "tags_code": 0,
    }  # fmt: skip
    assert "own_problem= " in run("dump", image.root / "checkpoint").output


def test_a_dump_shows_damage_and_goes_on(image: StoreImage) -> None:
    bad = image.records[3]
    image.patch_log(bad.offset + 4, b"\0")
    lines = run("dump", image.segment_path(0), "--count", 5).output.splitlines()
    assert lines[3].startswith(f"{bad.offset} {len(bad.data)} DAMAGE: magic")
    assert lines[4].startswith(f"{image.records[4].offset} ")


def test_a_dump_of_an_index_file_shows_its_head_and_entries(tmp_path: Path) -> None:
    with KeyedLog(tmp_path) as keyed:
        keyed.add_many(20)
        indexer = keyed.index()
        indexer.start()
        indexer.stop()
        (path,) = keyed.files()
        config = tmp_path / "broker.conf"
        config.write_text(f"maxHashSlotNum={SLOTS}\nmaxIndexNum={ENTRIES}\n")
        head, *lines = run("dump", path, "-c", config).output.splitlines()
        assert f"next_entry={len(keyed.puts()) + 1} " in head
        assert len(lines) == len(keyed.puts())
        assert lines[0].startswith(f"entry=1 hash={keyed.puts()[0].hash} log_offset=0 ")
        assert "maxHashSlotNum and maxIndexNum make" in run("dump", path).output
