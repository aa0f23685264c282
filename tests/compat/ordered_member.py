"""A push consumer of rmq's client in order, in a process of its own that may be killed.

It takes the same requests as OrderlyJournal.java (runner.py), and writes the same lines to the same
journal.

    python ordered_member.py            # "1 TAB ordered_open TAB who=one TAB topic=.." on its input
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any
from urllib.parse import unquote

from rmq import ConsumeOrderlyStatus, MessageExt, PushConsumer

OPEN: dict[str, PushConsumer] = {}


def ordered_open(given: dict[str, str]) -> None:
    who = given["who"]
    # A line is in the file before the listener goes on, whichever process is killed.
    journal = os.open(given["file"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def consume(messages: list[MessageExt], _: object) -> ConsumeOrderlyStatus:
        for each in messages:
            place = f"{who} {each.queue_id} {each.queue_offset} {each.get_property('n')}\n"
            os.write(journal, f"begin {place}".encode())
            time.sleep(0.002)
            os.write(journal, f"end {place}".encode())
        return ConsumeOrderlyStatus.SUCCESS

    OPEN[who] = PushConsumer(
        given["group"], consume, namesrv_addr=given["nameServer"], consume_orderly=True,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET", subscription={given["topic"]: "*"},
        persist_consumer_offset_interval=1_000,
    ).start()  # fmt: skip


def ordered_close(given: dict[str, str]) -> None:
    OPEN.pop(given["who"]).close()


SCENARIOS = {"ordered_open": ordered_open, "ordered_close": ordered_close}


def main() -> None:
    for line in sys.stdin:
        number, name, *words = line.rstrip("\n").split("\t")
        given = {key: unquote(value) for key, _, value in (word.partition("=") for word in words)}
        began, problem = time.monotonic(), None
        try:
            SCENARIOS[name](given)
        except Exception as error:
            problem = repr(error)
        answer: dict[str, Any] = {
            "id": number, "name": name, "ok": problem is None, "error": problem, "details": {},
            "seconds": round(time.monotonic() - began, 3),
        }  # fmt: skip
        print(json.dumps(answer), flush=True)
    for consumer in OPEN.values():
        consumer.close()


if __name__ == "__main__":
    main()
