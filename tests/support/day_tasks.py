"""Day tasks: the tables of docs/tasks.md, and a failing group, which its tasks are about.

    TERMINAL, BROWSER                   rows of the two tables, each a list of cells
    with ailing_group(given, 2, dead_letters) as sent:
        sent.message_id                 traced, and consumed by the group `billing`
        ...                             it has 2 dead letters, order-8 and order-9, and is well now

The group consumes the topic `orders`, which must exist, and stays online during the block.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from support.pages import DOCS
from support.waiting import wait_until

from rmq import Message, Producer, PushConsumer, SendResult
from rmq.client.consumer.listener import ConsumeConcurrentlyStatus

TASKS = 20
ACCOUNTS = (
    "--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true",
    "--set", 'initAuthenticationUser={"username":"admin","password":"top secret"}',
)  # fmt: skip
NAME, PASSWORD = "admin", "top secret"
FIRST_BAD = 8  # the first message that the group gives up has the key order-8


def table(heading: str) -> list[list[str]]:
    """The cells of each row below a heading, without the first cell."""
    text = (DOCS / "tasks.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines()
            if re.match(r"\| \d+ \|", line)]  # fmt: skip
    return [[cell.strip() for cell in row[1:]] for row in rows]


TERMINAL, BROWSER = table("In a terminal"), table("In a browser")


def browser_steps(cell: str) -> list[str] | None:
    """What a person clicks, chooses or fills in; None: the console cannot do the task."""
    if cell.startswith("–"):
        return None
    number, _, names = re.sub(r" \[\^\w+\]$", "", cell).partition(": ")
    steps = names.split(", ") if names else []
    assert int(number) == len(steps), cell
    return steps


@contextmanager
def ailing_group(
    given: Mapping[str, Any], bad: int, dead_letters: Callable[[], int]
) -> Iterator[SendResult]:
    """Yields the first message, which is consumed, once all bad messages are dead letters.

    given: parameters of the clients; bad: the number of bad messages; dead_letters: counts those
    that there are."""
    keys = {f"order-{number}" for number in range(FIRST_BAD, FIRST_BAD + bad)}
    is_repaired = threading.Event()

    def consume(messages: list[Any], context: Any) -> ConsumeConcurrentlyStatus:
        if is_repaired.is_set() or all(each.keys not in keys for each in messages):
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        context.delay_level_when_next_consume = -1
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    with Producer("tracer", enable_trace=True, **given) as producer:
        sent = producer.send(Message("orders", b"fine", keys="order-7"))
        for key in sorted(keys):
            producer.send(Message("orders", b"bad", keys=key))
    with PushConsumer("billing", consume, consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                      **given) as consumer:  # fmt: skip
        consumer.subscribe("orders")
        wait_until(lambda: dead_letters() == bad)
        is_repaired.set()
        yield sent
