"""The stages that are measured: what each works on, and how many operations a measurement has.

    run = STAGES["json_header"].open(directory)
    run(1000)                               # 1000 operations

A stage of the core alone is a loop of cext/testing/stage_loops.pyx; gather and the whole turns go
through a core that is driven from outside (bench/stages/turns.py).
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.stages.turns import TURNS, Run
from cext.testing import stage_loops
from rmq.auth.packed_policies import packed
from rmq.auth.policy import Acl
from rmq.codes import RequestCode
from rmq.filters.sql92 import compile_expression
from rmq.format.message import encode_properties
from rmq.format.remoting import ROCKETMQ, Command, encode
from rmq.names import AUTO_CREATE_TOPIC

QUEUE_ENTRIES = 5_000_000  # room of QueuePut: more than any measurement needs
PROPERTIES = encode_properties(
    {
        "UNIQ_KEY": "7F0000010AAA18B4AAC2123456780000", "KEYS": "order-17", "WAIT": "true",
        "TAGS": "TagA", "amount": "700", "region": "north", "customer": "c-000017",
        "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }
)  # fmt: skip
FIELDS = {
    "a": "orders_producer", "b": "orders", "c": AUTO_CREATE_TOPIC, "d": "4", "e": "2", "f": "0",
    "g": "1700000000123", "h": "0", "i": PROPERTIES.decode(), "j": "0", "k": "false", "m": "false",
    "n": "broker-a",
}  # fmt: skip
JSON_HEADER = json.dumps(
    {
        "code": int(RequestCode.SEND_MESSAGE_V2), "extFields": FIELDS, "flag": 0,
        "language": "JAVA", "opaque": 12,
        "serializeTypeCurrentRPC": "JSON", "version": 477,
    },
    separators=(",", ":"),
).encode()  # fmt: skip
BODY = bytes(range(256)) * 4


@dataclass(frozen=True)
class Case:
    """A stage. `open` returns the function that runs operations; it may put files into the
    directory that it gets."""

    title: str
    open: Callable[[Path], Run]
    operations: int = 400  # in one measurement


def binary_header() -> bytes:
    frame = encode(
        Command(code=RequestCode.SEND_MESSAGE_V2, opaque=12, language="JAVA", version=477,
                fields=FIELDS, serialize_type=ROCKETMQ)
    )  # fmt: skip
    return frame[8:]


def loop(kind: str, *given: bytes) -> Callable[[Path], Run]:
    return lambda _: getattr(stage_loops, kind)(*given).run


def queue_put(directory: Path) -> Run:
    return stage_loops.QueuePut(os.fsencode(directory), QUEUE_ENTRIES).run


def index_put(directory: Path) -> Run:
    return stage_loops.IndexPut(os.fsencode(directory)).run


def verdict(user_count: int, entry_count: int) -> Callable[[Path], Run]:
    """Verdicts with `user_count` users who have `entry_count` entries each."""

    def opened(_: Path) -> Run:
        names = (*(f"of-another-team-{n}*" for n in range(entry_count - 1)), "orders*")
        acl = Acl.of([{"policyType": "Custom", "entries": [
            {"resource": f"Topic:{name}", "actions": ["Pub"], "decision": "Allow"}
            for name in names
        ]}])  # fmt: skip
        users = [f"user-{n}".encode() for n in range(user_count)]
        return stage_loops.VerdictLook(packed(acl), b"orders-of-europe", users).run

    return opened


STAGES: dict[str, Case] = {
    "json_header": Case(
        "header of a send, JSON, parsed in full", loop("JsonHeader", JSON_HEADER)
    ),
    "binary_header": Case(
        "the same header, binary", loop("BinaryHeader", binary_header())
    ),
    "header_shape": Case(
        "the same header, JSON, by its shape", loop("HeaderShape", JSON_HEADER)
    ),
    "properties": Case(
        "its properties scanned", loop("Properties", PROPERTIES)
    ),
    "body_crc": Case(
        "checksum of a body of 1 KiB", loop("BodyCrc", BODY)
    ),
    "record_build": Case(
        "record of 1 KiB written", loop("RecordBuild", BODY)
    ),
    "queue_put": Case(
        "entry appended to a consume queue", queue_put, 1000
    ),
    "index_put": Case(
        "key put into the index, of 1000 at once", index_put, 10_000
    ),
    "tag_filter": Case(
        "entry's code compared with two tags", loop("TagFilterLook"), 10_000
    ),
    "sql_filter": Case(
        "two terms of SQL92 over the properties",
        loop("SqlFilterRun", compile_expression("amount > 500 AND region = 'north'").program,
             PROPERTIES),
    ),
    "verdict": Case(
        "whether one of 10,000 users may send", verdict(10_000, 10), 10_000
    ),
    "verdict_of_many": Case(
        "the same of a user with 10,000 entries", verdict(1, 10_000), 10_000
    ),
    "send_reply": Case(
        "answer to a send, JSON", loop("SendReplyWrite")
    ),
    "pull_reply": Case(
        "header of a pull's answer, JSON", loop("PullReplyWrite")
    ),
    **{name: Case(*fields) for name, fields in TURNS.items()},
}  # fmt: skip
