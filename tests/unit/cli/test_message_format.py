"""What `rmq consume --format` prints: each verb, bytes unchanged, and errors for what is no
verb."""

from __future__ import annotations

import pytest

from rmq.cli.message_format import MessageFormat
from rmq.client.blocking.tail import ReceivedMessage
from rmq.format.message import StoredMessage, encode_properties
from rmq.operations.texts import time_text

PROPERTIES = {"KEYS": "7 8", "TAGS": "paid", "UNIQ_KEY": "AB", "region": "eu"}
BODY = b"hello\xff\n"
MESSAGE = ReceivedMessage(
    "broker-a",
    StoredMessage(
        topic="orders", queue_id=3, queue_offset=17, store_timestamp_ms=1_763_726_400_123,
        reconsume_times=2, body=BODY, properties_bytes=encode_properties(PROPERTIES),
    ),
    PROPERTIES, BODY, None,
)  # fmt: skip


HOSTILE = "\x1b]0;owned\x07a\r\n\tb\u009b2J\u202e"


def test_on_a_terminal_a_message_commands_nothing() -> None:
    """What the format itself says is its user's."""
    properties = {"KEYS": HOSTILE}
    stored = StoredMessage(topic="orders")
    message = ReceivedMessage("b", stored, properties, HOSTILE.encode() + b"\xff", None)
    clean = "\ufffd]0;owned\ufffda\ufffd\n\tb\ufffd2J\ufffd"
    form = MessageFormat("\\x1b[1m%k\\r%s")
    shown = form.bytes_of(message, for_terminal=True)
    assert shown.decode() == f"\x1b[1m{clean}\r{clean}\ufffd"
    assert form.bytes_of(message).count(b"\x1b]") == 2


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("%t %b %p %o", b"orders broker-a 3 17"),
        ("%i|%k|%g|%r|%S|%K", b"AB|7 8|paid|2|7|3"),
        ("%T", b"1763726400123"),
        ("%d", (time_text(1_763_726_400_123) or "").encode()),
        ("%s", BODY),
        ("%s\\n", BODY + b"\n"),
        ("%h{region}/%h{none}/%h{}", b"eu//"),
        ("%h", b'{"KEYS":"7 8","TAGS":"paid","UNIQ_KEY":"AB","region":"eu"}'),
        ("100%%\\t\\0\\\\\\r", b"100%\t\0\\\r"),
        ("\\x1e\\xFF", b"\x1e\xff"),
        ("", b""),
        ("ein \u00fc\n", "ein \u00fc\n".encode()),
    ],
)
def test_each_verb(form: str, shown: bytes) -> None:
    assert MessageFormat(form).bytes_of(MESSAGE) == shown


@pytest.mark.parametrize("form", ["%x", "a\\q", "%", "\\", "%h{open", "% v", "\\x1", "\\xzz"])
def test_what_is_none_is_told_with_those_there_are(form: str) -> None:
    if form == "%h{open":  # the verb for all properties, and text
        assert MessageFormat(form).bytes_of(MESSAGE).endswith(b"}{open")
        return
    with pytest.raises(ValueError, match="use %t %p"):
        MessageFormat(form)
