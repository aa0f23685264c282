"""With which topics and groups a new shard begins: those of shard 0.

What a request has made on the shards one by one is not told on the bus (siblings.py), and a broker
that grows is to use its new shard for all its topics. So topics.json and subscriptionGroup.json of
a shard that has none yet are copied from shard 0, but for the topics named after that broker; with
them come what was deleted there and what is its own (stamps.py).

Example: give_tables(Path("/store"), "broker-a", Path("/store/shard-2")) before its first start.
"""

from __future__ import annotations

import logging
from pathlib import Path

from rmq.broker.json_file import JsonFile
from rmq.errors import StoreError

log = logging.getLogger("rmq.supervisor")

TOPICS, GROUPS = "topics.json", "subscriptionGroup.json"


def give_tables(store: Path, name: str, new_store: Path) -> None:
    """From shard 0, which is the broker `name` with this store, to a shard without tables."""
    files = [_file(new_store, each) for each in (TOPICS, GROUPS)]
    if any(file.path.exists() or file.backup_path.exists() for file in files):
        return
    for each in (TOPICS, GROUPS):
        try:
            content = _file(store, each).load()
        except StoreError as error:
            log.error("the new shard in %s begins without %s: %s", new_store, each, error)
            continue
        if content is None:
            continue
        table = content.get("topicConfigTable")
        if isinstance(table, dict):
            for own in (name, f"rmq_sys_SYNC_BROKER_MEMBER_{name}"):
                table.pop(own, None)
        _file(new_store, each).save(content)


def _file(store: Path, name: str) -> JsonFile:
    return JsonFile(store / "config" / name)
