"""Initial tables: the topics and groups that a shard gets from shard 0 when it is added.

What requests have made on each shard separately does not go over the bus (bus_siblings.py), but a
broker that grows must use its new shard for all its topics. So before the supervisor starts a shard
that is added, it puts into the shard's topics.json and subscriptionGroup.json whatever shard 0 has
and the shard has not: everything for a new shard; for a shard that was removed and comes back, what
was made meanwhile.
Topics named after shard 0 stay out. Items that are shard 0's own, and its notes of deleted items
(stamps.py), are copied with the rest.

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
    """Copies from shard 0, which is the broker `name` with `store`, to the shard with `new_store`.
    A file that cannot be read or written is logged: the shard then reports the same trouble itself,
    or begins without the file."""
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
    """Both tables; an item that the new shard has stays as it is."""
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
