"""Initial tables: the topics and groups of a shard that is added to a broker, those of shard 0.

What a request has made on the shards one by one does not go over the bus (bus_siblings.py), and a
broker that grows is to use its new shard for all its topics. So the supervisor puts into
topics.json and subscriptionGroup.json of a shard that is added, before it starts it, what shard 0
has and it has not: all of it for a new one; what was made meanwhile for one that was taken off and
comes back.
Topics named after shard 0 stay out. What is shard 0's own or was deleted there (stamps.py) comes
with the rest.

Example: copy_tables(Path("/store"), "broker-a", Path("/store/shard-2"))
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from rmq.base.json_file import JsonFile
from rmq.broker.tables.metadata_journal import MetadataJournal
from rmq.broker.tables.stamps import MEMBER, OWN
from rmq.errors import StoreError
from rmq.names import broker_member_topic

log = logging.getLogger("rmq.supervisor")

TOPICS, GROUPS = "topics.json", "subscriptionGroup.json"
TABLES = ("topicConfigTable", "subscriptionGroupTable", "forbiddenTable", MEMBER)


def has_tables(store: Path) -> bool:
    """Whether a shard has run with this store."""
    files = [_file(store, each) for each in (TOPICS, GROUPS)]
    return any(file.path.exists() or file.backup_path.exists() for file in files)


def copy_tables(store: Path, name: str, new_store: Path) -> None:
    """From shard 0, which is the broker `name` with this store, to the shard with that store. What
    cannot be read or written is logged: the shard then says so itself, or begins without it."""
    for each in (TOPICS, GROUPS):
        try:
            given, present = _content(store, each), _content(new_store, each)
            if given is not None:
                _leave_out(given, name)
                _file(new_store, each).save(_merged(given, present or {}))
        except (StoreError, OSError) as error:
            log.error("the new shard in %s gets no %s: %s", new_store, each, error)


def _leave_out(content: dict[Any, Any], name: str) -> None:
    table = content.get("topicConfigTable")
    if isinstance(table, dict):
        for topic in (name, broker_member_topic(name)):
            table.pop(topic, None)


def _merged(given: dict[Any, Any], present: dict[Any, Any]) -> dict[Any, Any]:
    """An item that the new shard has stays as it is."""
    merged = {**given, **present}
    for key in TABLES:
        tables = (given.get(key), present.get(key))
        if isinstance(tables[0], dict) and isinstance(tables[1], dict):
            merged[key] = {**tables[0], **tables[1]}
    own = [name for each in (given, present) for name in each.get(OWN) or ()]
    if own:
        merged[OWN] = sorted(set(own))
    return merged


def _content(store: Path, name: str) -> dict[Any, Any] | None:
    return MetadataJournal(store / "config").load(_file(store, name))[0]


def _file(store: Path, name: str) -> JsonFile:
    return JsonFile(store / "config" / name)
