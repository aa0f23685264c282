"""Earlier copy: checks that what a store has from an earlier try belongs to the old master's log.

    check(Path("store"), "broker-a", "10.0.0.5:10911")
                            ConfigError: the store is something else, and stays as it is

A slave replaces its tables by the master's, so a store of another broker would lose its topics. And
it appends what the master sends to its own log, which could be another log: after a power cut of
the old master, or if the copy was a master itself. The last record of the copy shows that: the old
master has the same record at the same place, or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from mmap import PROT_READ, mmap
from pathlib import Path

import msgspec

from rmq.client.blocking.connection import Connection
from rmq.codes import MAGIC_V1, MAGIC_V2, RequestCode, ResponseCode
from rmq.errors import ConfigError, ProtocolError, RmqError
from rmq.format.message import decode_message
from rmq.takeover.old_log import HEAD_BYTES

SLAVE_FILE = Path("config") / "rmqReplicaOf.json"  # what --replica-of has learned
SHARDS_FILE = Path("config") / "shards.json"
TORN_MAX = 1000  # records at the end that a power cut may have left in pieces
ELSE = "give an empty directory with --store"


def check(store: Path, name: str, address: str) -> None:
    """Checks the store. `name` and `address` are those of the old master."""
    if (store / SHARDS_FILE).exists():
        raise ConfigError(f"{store} has shards, but a copy has only one log: {ELSE}")
    try:
        found = msgspec.json.decode((store / SLAVE_FILE).read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        if any((store / part).exists() for part in ("commitlog", "config")):
            raise ConfigError(f"{store} is the store of a broker, not a copy: {ELSE}") from None
        return
    except (OSError, msgspec.DecodeError) as error:
        raise RmqError(f"{store / SLAVE_FILE} cannot be read: {error}") from None
    if found.get("brokerName", name) != name:
        raise ConfigError(f"{store} is a copy of {found['brokerName']}, and not of {name}: {ELSE}")
    last = last_record(store / "commitlog")
    if last is not None and not _has(address, *last):
        raise ConfigError(
            f"{store}: the last message of the copy, at {last[0]} of its log, is not in the log of "
            f"{address}. The old master may have lost it in a power cut, or deleted it by now, or "
            f"the copy was a master in between. To go on, {ELSE}; keep the other one until you know"
        )


def last_record(directory: Path) -> tuple[int, bytes] | None:
    """(place, bytes) of the last record; None: there is none."""
    names = [path.name for path in directory.glob("*") if path.name.isdecimal()]
    for name in sorted(names, reverse=True):
        path = directory / name
        if path.stat().st_size == 0:
            continue
        with path.open("rb") as file, mmap(file.fileno(), 0, prot=PROT_READ) as data:
            for at, size in reversed(_records(data)):
                record = data[at : at + size]
                try:
                    decode_message(record)
                except ProtocolError:
                    continue
                return int(name) + at, record
    return None


def _records(data: mmap) -> deque[tuple[int, int]]:
    """(place, size) of the last records."""
    found: deque[tuple[int, int]] = deque(maxlen=TORN_MAX)
    at = 0
    while at + HEAD_BYTES <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        magic = int.from_bytes(data[at + 4 : at + 8], "big")
        if magic not in (MAGIC_V1, MAGIC_V2):
            break
        if not HEAD_BYTES < size <= len(data) - at:
            break
        found.append((at, size))
        at += size
    return found


def _has(address: str, at: int, record: bytes) -> bool:
    fields: Mapping[str, int] = {"offset": at}
    with Connection(address) as connection:
        reply = connection.ask(RequestCode.VIEW_MESSAGE_BY_ID, fields)
    return reply.code == ResponseCode.SUCCESS and bytes(reply.body) == record
