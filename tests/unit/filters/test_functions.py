"""Filter functions: how settings name them, which arguments they get, what their process
answers."""

import contextlib
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import pytest
from support.pages import DOCS, blocks_of
from support.stored_records import record
from support.waiting import HANG_S

from rmq.errors import ConfigError
from rmq.filters.functions import (
    BODY_BYTES_MAX,
    FRAME_LENGTH,
    READY,
    Answer,
    Message,
    Question,
    named_functions,
)
from rmq.filters.worker import answer, load
from rmq.format.message import decode_message

SOURCE = """
import sys

def long_body(message):
    print("seen", message.queue_offset)
    return len(message.body) > 4

def picky(message):
    return message.properties["vip"] == "yes"

def stops(message):
    sys.exit(7)

number = 5
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ownfilters.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "ownfilters", raising=False)
    return tmp_path


def test_a_setting_names_functions_in_order() -> None:
    found = named_functions(" vip = shop.filters:is_vip ; eu=shop:in_europe;")
    assert list(found.items()) == [("vip", "shop.filters:is_vip"), ("eu", "shop:in_europe")]
    assert named_functions("") == {}


@pytest.mark.parametrize(
    "text",
    ["vip", "vip=", "vip=module", "=m:f", "a b=m:f", "vip=m:f;vip=m:g", "vip=m:f()", "vip=/m:f",
     "vip=m:f:g", "x" * 65 + "=m:f"],
)  # fmt: skip
def test_a_setting_that_names_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="rmqMessageFilters"):
        named_functions(text)


def test_a_message_shows_what_was_stored() -> None:
    packed = zlib.compress(b"hello" * 100)
    properties = b"TAGS\x01red\x02KEYS\x01k1 k2\x02vip\x01yes\x02"
    for body, flags, expected in (
        (b"plain", 0, b"plain"),
        (packed, 0x1, b"hello" * 100),
        (packed, 0x301, b"hello" * 100),
        (b"\x04\x22", 0x101, b"\x04\x22"),  # lz4: the body is given packed
    ):
        stored = decode_message(record(0, body, b"t", properties, flags=flags))[0]
        message = Message.of(stored)
        assert (message.body, message.topic) == (expected, "t")
        assert (message.tags, message.keys) == ("red", ["k1", "k2"])
        assert message.properties["vip"] == "yes"
        assert message.store_timestamp_ms == 2


def test_one_verdict_a_record_and_those_that_raise_pass(module: Path) -> None:
    records = record(0, b"tiny") + record(1, b"longer", properties=b"vip\x01yes\x02")
    found = answer(load("ownfilters:long_body", str(module)), Question(9, records))
    assert (found.number, found.verdicts, found.error) == (9, b"\x00\x01", "")
    found = answer(load("ownfilters:picky", str(module)), Question(9, records))
    assert found.verdicts == b"\x02\x01"
    assert "KeyError: 'vip' (message bench queue 0 offset 0)" in found.error


def test_a_body_that_unpacks_to_more_than_allowed_is_not_unpacked_and_passes(module: Path) -> None:
    """Otherwise anyone who may send to the topic could end the process with one message, again and
    again."""
    function = load("ownfilters:long_body", str(module))
    for zeros, verdict in ((BODY_BYTES_MAX, b"\x01"), (BODY_BYTES_MAX + 1, b"\x02")):
        records = record(0, zlib.compress(bytes(zeros)), flags=0x1) + record(1, b"tiny")
        found = answer(function, Question(1, records))
        assert found.verdicts == verdict + b"\x00"
    assert f"larger than {BODY_BYTES_MAX} bytes (message bench queue 0 offset 0)" in found.error


def test_the_function_that_operators_are_shown_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    text = (DOCS / "operations.md").read_text()
    (block,) = (each for each in blocks_of(DOCS / "operations.md", "py") if "def is_vip" in each)
    (tmp_path / "shopfilters.py").write_text(block)
    assert "rmqMessageFilters=vip=shopfilters:is_vip" in text
    function = load("shopfilters:is_vip", str(tmp_path))
    records = record(0, b'{"customer": "vip-7"}') + record(1, b'{"customer": "7"}')
    assert answer(function, Question(1, records)).verdicts == b"\x01\x00"


def test_a_place_that_holds_no_function_is_an_error(module: Path) -> None:
    with pytest.raises(TypeError, match="no function"):
        load("ownfilters:number", str(module))
    with pytest.raises(AttributeError):
        load("ownfilters:absent", str(module))
    with pytest.raises(ModuleNotFoundError):
        load("nowhere:f", "")


@contextlib.contextmanager
def worker(place: str, path: Path) -> Iterator[tuple["subprocess.Popen[str]", socket.socket]]:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "rmq.filters.worker", str(theirs.fileno()), place, str(path)],
        pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    theirs.close()
    ours.settimeout(HANG_S)
    try:
        yield process, ours
    finally:
        ours.close()
        process.kill()
        process.communicate()


def received(stream: BinaryIO) -> Answer:
    (length,) = FRAME_LENGTH.unpack(stream.read(4))
    return msgspec.msgpack.decode(stream.read(length), type=Answer)


def test_the_process_answers_until_its_socket_is_closed(module: Path) -> None:
    with worker("ownfilters:long_body", module) as (process, channel):
        stream = channel.makefile("rb")
        assert received(stream) == Answer(READY, b"", "")
        for number in (1, 2):
            question = msgspec.msgpack.encode(Question(number, record(0, b"longer")))
            channel.sendall(FRAME_LENGTH.pack(len(question)) + question)
            found = received(stream)
            assert (found.number, found.verdicts) == (number, b"\x01")
        stream.close()
        channel.shutdown(socket.SHUT_RDWR)
        channel.close()
        assert process.wait(HANG_S) == 0
        assert process.stderr is not None and "seen 0" in process.stderr.read()


def test_a_process_that_cannot_import_its_function_says_why(module: Path) -> None:
    with worker("ownfilters:absent", module) as (process, channel):
        assert channel.recv(1) == b""
        assert process.wait(HANG_S) != 0
        assert process.stderr is not None and "absent" in process.stderr.read()


def test_a_function_that_ends_the_process_ends_it(module: Path) -> None:
    with worker("ownfilters:stops", module) as (process, channel):
        question = msgspec.msgpack.encode(Question(1, record(0)))
        channel.sendall(FRAME_LENGTH.pack(len(question)) + question)
        stream = channel.makefile("rb")
        assert received(stream).number == READY
        assert stream.read(1) == b""
        assert process.wait(HANG_S) == 7
