"""`rmq send`: messages from arguments, a file, or the lines of standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from cext.client.message import Message
from cext.client.result import SendResult
from rmq.cli.account_options import asker
from rmq.cli.options import json_option, namesrv_option, parse_pairs
from rmq.cli.output import show_json
from rmq.client.producer.producer import Producer
from rmq.codes import ResponseCode
from rmq.errors import RemoteError
from rmq.format.fastjson import MessageQueue
from rmq.names import CLIENT_PRODUCER_GROUP


@click.command()
@click.argument("topic")
@click.argument("bodies", nargs=-1, metavar="[BODY]...")
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="One message: the whole file.",
)
@click.option("--tag", help="The messages' tag.")
@click.option("--keys", help="Keys to find the messages by, separated by blanks.")
@click.option(
    "--property",
    "-p",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A user property; may be given several times.",
)
@click.option("--queue", type=click.IntRange(0), help="Queue to send to; default: in turn.")
@click.option(
    "--count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Send all of it this many times.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")
@namesrv_option
@json_option
def send(
    topic: str,
    bodies: tuple[str, ...],
    path: Path | None,
    tag: str | None,
    keys: str | None,
    pairs: tuple[str, ...],
    queue: int | None,
    count: int,
    quiet: bool,
    namesrv: str,
    as_json: bool,
) -> None:
    """Send messages to a topic.

    Without BODY and --file, every line of standard input is a message. A topic that does not exist
    is created by the broker when autoCreateTopicEnable is on, as it is by default.
    """
    properties = parse_pairs(pairs, "--property")
    given = asker()
    given["namesrv_addr"] = namesrv
    with Producer(CLIENT_PRODUCER_GROUP, **given) as producer:
        chosen = None if queue is None else _queue(producer, topic, queue)
        for _ in range(count):
            for body in _messages(bodies, path):
                message = Message(topic, body, tag, keys, properties=properties)
                sent = producer.send(message, queue=chosen)
                if not quiet:
                    _show(sent, as_json)


def _queue(producer: Producer, topic: str, number: int) -> MessageQueue:
    for queue in producer.queues(topic):
        if queue.queue_id == number:
            return queue
    raise RemoteError(ResponseCode.INVALID_PARAMETER, f"topic {topic} has no queue {number}")


def _messages(bodies: tuple[str, ...], path: Path | None) -> Iterator[bytes]:
    if path is not None:
        yield path.read_bytes()
    for body in bodies:
        yield body.encode(errors="surrogateescape")
    if path is None and not bodies:
        for line in sys.stdin.buffer:
            if body_bytes := line.rstrip(b"\r\n"):
                yield body_bytes


def _show(sent: SendResult, as_json: bool) -> None:
    if as_json:
        show_json(
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
