"""`rmq send`: sends messages from arguments, a file, or standard input, which has lines, records
with keys, or JSON lines; send_records.py splits lines and records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path

import click

from cext.client.message import Message
from cext.client.result import SendResult
from rmq.base import patience
from rmq.cli.options import namesrv_option, parse_pairs
from rmq.cli.output import Output, output_option
from rmq.cli.send_records import DELIMITER, records
from rmq.cli.store_places import progress_bar
from rmq.cli.times import DURATION, MOMENT
from rmq.client.threaded.producer import Producer
from rmq.codes import ResponseCode
from rmq.errors import MessageError, RemoteError, RmqError
from rmq.format.fastjson import MessageQueue
from rmq.names import CLIENT_PRODUCER_GROUP, SHARDING_KEY
from rmq.operations.client_keywords import client_keywords
from rmq.operations.json_lines import DELIVER_AT, message_of
from rmq.operations.texts import counted


@click.command()
@click.argument("topic")
@click.argument("bodies", nargs=-1, metavar="[BODY]...")
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send the whole file as one message.",
)
@click.option(
    "--json-lines",
    is_flag=True,
    help='Every line of standard input is a JSON object, {"body": .., "tag": .., "keys": .., '
    '"properties": {..}}, as `rmq consume --json` prints it.',
)
@click.option(
    "--delimiter",
    type=DELIMITER,
    help="Text between messages of standard input, such as \\0 or \\x1e.  [default: \\n]",
)
@click.option(
    "--key-delimiter",
    "-K",
    type=DELIMITER,
    help="Text between keys and body of each message of standard input.  [default: no keys]",
)
@click.option("--tag", help="Tag of the messages.")
@click.option("--keys", help="Keys to find the messages by, separated by spaces.")
@click.option(
    "--property",
    "-p",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="User property. May be given several times.",
)
@click.option("--queue", type=click.IntRange(0), help="Send to this queue.  [default: all in turn]")
@click.option("--sharding-key", help="Messages with the same key go to the same queue, in order.")
@click.option("--delay", type=DURATION, help="Deliver after this time: 500ms, 10s, 5m, 2h, 1d.")
@click.option("--at", "deliver_at", type=MOMENT,
              help="Deliver at this time: 2025-06-01T08:30, +1h.")  # fmt: skip
@click.option(
    "--count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Send everything this many times.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")
@namesrv_option
@output_option
def send(
    topic: str,
    bodies: tuple[str, ...],
    path: Path | None,
    json_lines: bool,
    delimiter: bytes | None,
    key_delimiter: bytes | None,
    tag: str | None,
    keys: str | None,
    pairs: tuple[str, ...],
    queue: int | None,
    sharding_key: str | None,
    delay: int | None,
    deliver_at: int | None,
    count: int,
    quiet: bool,
    namesrv: str,
    output: Output,
) -> None:
    """Send messages to a topic.

    Each BODY is a message. Without BODY and --file, or with - as BODY, each line of standard input
    that is not empty is a message; --delimiter separates messages by another text. The broker
    creates a topic that does not exist, unless autoCreateTopicEnable is off.
    """
    is_read = path is None and bodies in ((), ("-",))
    delimited = delimiter is not None or key_delimiter is not None
    _check_source(is_read, json_lines, delimited, count)
    if key_delimiter is not None and keys is not None:
        raise click.UsageError("--keys and --key-delimiter cannot be used together")
    if delay is not None and deliver_at is not None:
        raise click.UsageError("--delay and --at cannot be used together")
    if queue is not None and sharding_key is not None:
        raise click.UsageError("--queue and --sharding-key cannot be used together")
    own = {"TIMER_DELAY_MS": delay, DELIVER_AT: deliver_at, SHARDING_KEY: sharding_key}
    properties = parse_pairs(pairs, "--property") | {
        name: str(value) for name, value in own.items() if value is not None
    }

    def messages() -> Iterator[Message]:
        if json_lines:
            yield from _json_lines(topic)
        elif is_read:
            for each, body in records(sys.stdin.buffer, delimiter or b"\n", key_delimiter):
                yield Message(topic, body, keys=each)
        else:
            yield from (Message(topic, body) for body in _bodies(bodies, path))

    def marked() -> Iterator[Message]:
        for message in chain.from_iterable(messages() for _ in range(count)):
            for name, value in properties.items():
                message.put_property(name, value)
            if tag is not None:
                message.tags = tag
            if keys is not None:
                message.keys = keys
            yield message

    total = 0 if is_read else count * (len(bodies) + (path is not None))
    given = client_keywords()
    given["namesrv_addr"] = namesrv
    # Not where its lines are typed, nor where each message is told.
    bar = progress_bar(f"send {topic}", is_wanted=quiet and not (is_read and sys.stdin.isatty()))
    with Producer(CLIENT_PRODUCER_GROUP, **given) as producer, bar as progress:
        chosen = None if queue is None else _queue(producer, topic, queue, namesrv)
        for done, sent in enumerate(_sent(producer, marked(), chosen, namesrv), 1):
            progress("messages", done, total)
            if not quiet:
                show_sent(sent, output)


def _sent(
    producer: Producer, messages: Iterator[Message], queue: MessageQueue | None, namesrv: str
) -> Iterator[SendResult]:
    done = 0
    try:
        for message in messages:
            with _awaited(done, namesrv):
                sent = producer.send(message, queue=queue)
            done += 1
            yield sent
    except RmqError:
        if done:  # with this number the user can send the rest of a file
            click.echo(f"{counted(done, 'message')} sent before the error", err=True)
        raise


def _check_source(is_read: bool, json_lines: bool, delimited: bool, count: int) -> None:
    if (json_lines or delimited) and not is_read:
        raise click.UsageError("--json-lines, --delimiter and --key-delimiter are for standard "
                               "input: give no BODY and no --file")  # fmt: skip
    if json_lines and delimited:
        raise click.UsageError("--json-lines has a message in each line: give no delimiter")
    if is_read and count > 1:
        raise click.UsageError("--count cannot be used: standard input can be read once only")


def _json_lines(topic: str) -> Iterator[Message]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        if line.strip():
            try:
                yield message_of(line, topic)
            except MessageError as error:
                raise MessageError(f"line {number}: {error}") from None


def _awaited(done: int, namesrv: str) -> AbstractContextManager[None]:
    """A block in which the client waits for its first answer: the user is told if that takes long
    (rmq/base/patience.py)."""
    return nullcontext() if done else patience.awaited(f"{namesrv}, or a broker of it,")


def _queue(producer: Producer, topic: str, number: int, namesrv: str) -> MessageQueue:
    with _awaited(0, namesrv):
        queues = producer.queues(topic)
    for queue in queues:
        if queue.queue_id == number:
            return queue
    raise RemoteError(ResponseCode.INVALID_PARAMETER, f"topic {topic} has no queue {number}")


def _bodies(bodies: tuple[str, ...], path: Path | None) -> Iterator[bytes]:
    if path is not None:
        yield path.read_bytes()
    for text in bodies:
        yield text.encode(errors="surrogateescape")


def show_sent(sent: SendResult, output: Output) -> None:
    if output.is_data:
        output.value(
            {
                "status": sent.status,
                "message_id": sent.message_id,
                "offset_message_id": sent.offset_message_id,
                "broker": sent.queue.broker_name,
                "queue": sent.queue.queue_id,
                "offset": sent.queue_offset,
            }
        )
    else:
        click.echo(
            f"{sent.status} {sent.queue.broker_name} queue {sent.queue.queue_id} "
            f"offset {sent.queue_offset} id {sent.message_id}"
        )
