"""Store keeper: a small store as this tree's rmq writes it, kept for the tests of later ones.

    python tools/store_keeper.py tests/process/stores/1.4.2.tar.xz

Run it in the built tree of the release. The store has something of each kind: messages plain,
packed and in a batch, with tags, keys and properties; offsets of a group; delayed, timed and half
messages. expected.json, beside the store, says what a later broker must serve.
tests/process/test_old_stores.py reads both.

Delayed messages are due after two minutes, so a test of a store that is younger waits for them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rmq import (  # noqa: E402
    Admin,
    LocalTransactionState,
    Message,
    MessageQueue,
    Producer,
    TransactionProducer,
)

READY = re.compile(r"is ready in [\d.]+ s: name server (\S+?),")
# Small files: mostly zeros, they compress well and are unpacked at once.
SETTINGS = {
    "mappedFileSizeCommitLog": 1 << 18, "mappedFileSizeConsumeQueue": 2_000,
    "maxIndexNum": 2_000, "maxHashSlotNum": 500,
}  # fmt: skip
QUEUES, EACH = 2, 20
COMMITTED = {0: 7, 1: 12}
DUE_MS = 120_000
DELAY_LEVEL = 6  # 2 minutes


class Undecided:
    """A transaction listener that answers a send with `state`, and a later check with UNKNOWN: a
    half message that was left open stays open."""

    def __init__(self, state: LocalTransactionState) -> None:
        self._state = state

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return self._state

    def check_local_transaction(self, message: Message) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def fill(namesrv: str) -> dict[str, Any]:
    """Fills the store. Returns what a later broker must serve."""
    with Admin(namesrv_addr=namesrv) as admin:
        for topic in ("orders", "later", "payments"):
            admin.create_topic(topic, QUEUES)
        admin.create_group("billing")
        with Producer("shop", namesrv_addr=namesrv) as producer:
            orders = []
            for queue_id in range(QUEUES):
                queue = MessageQueue("orders", "broker-a", queue_id)
                alone = [order(number) for number in range(queue_id, QUEUES * EACH, QUEUES)]
                batch = [Message("orders", f"of a batch {number}") for number in range(2)]
                stored = [producer.send(each, queue=queue) for each in alone]
                stored += producer.send_batch(batch, queue=queue)
                orders += map(row, [*alone, *batch], stored)
            due_ms = int(time.time() * 1000) + DUE_MS
            delayed = [f"delayed {number}" for number in range(3)]
            for body in delayed:
                producer.send(Message("later", body, delay_level=DELAY_LEVEL))
            timed = [f"timed {number}" for number in range(3)]
            for number, body in enumerate(timed):
                producer.send(Message("later", body, deliver_at=due_ms + number))
        for state, body in (
            (LocalTransactionState.COMMIT, "committed"),
            (LocalTransactionState.ROLLBACK, "rolled back"),
            (LocalTransactionState.UNKNOWN, "open"),
        ):
            listener = Undecided(state)
            with TransactionProducer("payers", listener, namesrv_addr=namesrv) as producer:
                producer.send_in_transaction(Message("payments", body))
        for queue_id, offset in COMMITTED.items():
            admin.commit_offset("billing", MessageQueue("orders", "broker-a", queue_id), offset)
    return {
        "orders": orders, "committed": COMMITTED, "later": delayed + timed,
        "payments": ["committed"], "open": "open",
    }  # fmt: skip


def order(number: int) -> Message:
    """Message `number`; every tenth body is large enough to be packed."""
    body = f"order {number} " * (500 if number % 10 == 3 else 1)
    return Message(
        "orders", body, tags="paid" if number % 2 else "open", keys=f"order-{number}",
        properties={"amount": number * 3},
    )  # fmt: skip


def row(message: Message, stored: Any) -> dict[str, Any]:
    return {
        "queue": stored.queue.queue_id, "offset": stored.queue_offset,
        "body": message.body.decode(), "tags": message.tags, "keys": message.keys,
        "amount": message.get_property("amount"), "id": stored.message_id,
    }  # fmt: skip


def keep(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        settings = [word for each in SETTINGS.items() for word in ("--set", "{}={}".format(*each))]
        command = [sys.executable, "-m", "rmq", "standalone", "--store", str(store),
                   "--namesrv-port", "0", "--port", "0", *settings]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        try:
            assert process.stdout is not None
            found = READY.search(process.stdout.readline())
            assert found is not None, "the broker is not ready"
            expected = {"settings": SETTINGS, **fill(found[1])}
        finally:
            process.terminate()
            process.wait()
        (Path(folder) / "expected.json").write_text(json.dumps(expected, indent=1))
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(target, "w:xz", preset=9) as archive:
            for name in ("expected.json", "store"):
                archive.add(Path(folder) / name, name, filter=nobodys)


def nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    keep(Path(sys.argv[1]).absolute())
