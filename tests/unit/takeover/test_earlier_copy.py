"""Earlier copy: a takeover goes on only with an empty store, or with a copy of this master's
log."""

from pathlib import Path

import msgspec
import pytest
from support.scripted_peer import ScriptedPeer
from support.stored_records import record

from rmq.codes import RequestCode
from rmq.errors import ConfigError
from rmq.format.remoting import Command
from rmq.takeover.earlier_copy import SLAVE_FILE, check, last_record

FIRST = record(0, b"first")
SECOND = record(len(FIRST), b"second")
SEGMENT_BYTES = 4096


def store_of(directory: Path, log: bytes, **slave: str) -> Path:
    (directory / "commitlog").mkdir(parents=True)
    path = directory / "commitlog" / f"{0:020d}"
    path.write_bytes(log.ljust(SEGMENT_BYTES, b"\0"))
    if slave:
        (directory / SLAVE_FILE).parent.mkdir()
        (directory / SLAVE_FILE).write_bytes(msgspec.json.encode(slave))
    return directory


def test_an_empty_directory_is_taken(tmp_path):
    check(tmp_path, "broker-a", "127.0.0.1:1")
    check(tmp_path / "none", "broker-a", "127.0.0.1:1")


def test_the_store_of_a_master_is_never_made_a_slaves(tmp_path):
    with pytest.raises(ConfigError, match="not a copy"):
        check(store_of(tmp_path / "s", FIRST), "broker-a", "127.0.0.1:1")


def test_a_store_with_shards_and_one_of_another_broker_are_refused(tmp_path):
    store = store_of(tmp_path / "s", FIRST, brokerName="broker-b")
    with pytest.raises(ConfigError, match="a copy of broker-b"):
        check(store, "broker-a", "127.0.0.1:1")
    (store / "config" / "shards.json").write_text("{}")
    with pytest.raises(ConfigError, match="has shards"):
        check(store, "broker-a", "127.0.0.1:1")


def test_a_copy_whose_end_the_master_does_not_have_is_refused(tmp_path):
    store = store_of(tmp_path / "s", FIRST + SECOND, brokerName="broker-a")

    def has(request: Command) -> Command:
        assert request.int_field("offset") == len(FIRST)
        return request.reply(body=SECOND)

    def has_another(request: Command) -> Command:
        return request.reply(body=record(len(FIRST), b"another"))

    def has_none(request: Command) -> Command:
        return request.reply(1, "no message there")

    with ScriptedPeer({RequestCode.VIEW_MESSAGE_BY_ID: has}) as peer:
        check(store, "broker-a", peer.address)
    for answer in (has_another, has_none):
        with (
            ScriptedPeer({RequestCode.VIEW_MESSAGE_BY_ID: answer}) as peer,
            pytest.raises(ConfigError, match="is not in the log of"),
        ):
            check(store, "broker-a", peer.address)


def test_the_last_whole_record_is_found(tmp_path):
    torn = SECOND[:90].ljust(len(SECOND), b"\0")
    assert last_record(store_of(tmp_path / "a", FIRST + SECOND) / "commitlog") == (
        len(FIRST), SECOND,
    )  # fmt: skip
    assert last_record(store_of(tmp_path / "b", FIRST + torn) / "commitlog") == (0, FIRST)
    assert last_record(store_of(tmp_path / "c", b"") / "commitlog") is None
