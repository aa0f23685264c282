"""Worker: the process of one message filter: `python -m rmq.filters.worker FD PLACE [PATH]`.

It reads questions from the socket FD and answers each, until the broker closes the socket. The
function is imported from PLACE (module:function), from the directory PATH if it is there. What it
prints goes to the broker's standard error. If it raises, the message is let through, and the error
is reported. A worker that cannot import its function ends and prints the reason.
"""

import importlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from rmq.filters.functions import (
    FRAME_LENGTH,
    RAISED,
    READY,
    UNWANTED,
    WANTED,
    Answer,
    Message,
    Question,
)
from rmq.format.message import StoredMessage, decode_messages
from rmq.limits import FUNCTION_FRAME_BYTES_MAX


def load(place: str, path: str) -> Callable[[Message], Any]:
    """The function. Raises whatever its import raises."""
    if path:
        sys.path.insert(0, path)
    module, _, name = place.partition(":")
    function = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise TypeError(f"{place} is no function")
    return function  # type: ignore[no-any-return]


def verdict(function: Callable[[Message], Any], stored: StoredMessage) -> tuple[int, str]:
    """The verdict on one message, and the reason if the function raised."""
    try:
        return (WANTED if function(Message.of(stored)) else UNWANTED), ""
    except Exception as error:
        where = f"{stored.topic} queue {stored.queue_id} offset {stored.queue_offset}"
        return RAISED, f"{type(error).__name__}: {error} (message {where})"[:500]


def answer(function: Callable[[Message], Any], question: Question) -> Answer:
    verdicts, errors = bytearray(), [""]
    for stored in decode_messages(question.records):
        one, error = verdict(function, stored)
        verdicts.append(one)
        if error:
            errors.append(error)
    return Answer(question.number, bytes(verdicts), errors[-1])


def questions(stream: Any) -> Iterator[Question]:
    decoder = msgspec.msgpack.Decoder(Question)
    while len(head := stream.read(FRAME_LENGTH.size)) == FRAME_LENGTH.size:
        (length,) = FRAME_LENGTH.unpack(head)
        if length > FUNCTION_FRAME_BYTES_MAX:
            raise ValueError(f"a question of {length} bytes")
        frame = stream.read(length)
        if len(frame) < length:
            return
        yield decoder.decode(frame)


def main(arguments: list[str]) -> None:
    channel = socket.socket(fileno=int(arguments[0]))
    os.dup2(2, 1)  # what the function prints must not mix with anything
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the broker decides when this ends
    function = load(arguments[1], arguments[2] if len(arguments) > 2 else "")
    encoder = msgspec.msgpack.Encoder()

    def send(given: Answer) -> None:
        frame = encoder.encode(given)
        channel.sendall(FRAME_LENGTH.pack(len(frame)) + frame)

    send(Answer(READY, b"", ""))
    for question in questions(channel.makefile("rb")):
        send(answer(function, question))


if __name__ == "__main__":
    main(sys.argv[1:])
