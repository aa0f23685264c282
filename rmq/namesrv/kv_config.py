"""KV config: kept by the name server: namespace -> key -> value, all text, on disk.

    {"configTable":{"ORDER_TOPIC_CONFIG":{"TopicA":"broker-a:4;broker-b:4"}}}

is the file's whole content, the one Apache's name server reads and writes. mqadmin uses it for
ordered topics (namespace ORDER_TOPIC_CONFIG: which broker has how many queues of the topic).

Each change is on disk before it is answered; when writing fails, the change is taken back and the
request gets the error. The file may hold the change nevertheless (the rename was done, its sync
failed), so the next change writes the file even if it changes nothing. Without a path a restart
forgets everything.

Changes are made one after another (the caller awaits them); reads see the last finished change.
"""

import asyncio
from pathlib import Path
from typing import Any

from rmq.base import atomic_file
from rmq.errors import ConfigError, ProtocolError
from rmq.format import fastjson
from rmq.names import ORDER_TOPIC_NAMESPACE

ORDER_TOPICS = ORDER_TOPIC_NAMESPACE

# Each change rewrites the file, so its size is bounded.
BYTES_MAX = 4 * 1024 * 1024

Tables = dict[str, dict[str, str]]


class KvConfig:
    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._tables: Tables = {}
        self._bytes = 0
        self._one_change = asyncio.Lock()
        self._is_file_known = True  # false after a write that failed

    def load(self) -> None:
        """Reads the file if there is one; ConfigError when it holds something else."""
        content = atomic_file.read(self._path) if self._path is not None else None
        if content is None or not content.strip():
            return
        try:
            tables: Any = fastjson.loads_object(content).get("configTable")
        except ProtocolError as error:
            raise ConfigError(f"{self._path}: {error}") from None
        if not _is_tables(tables):
            raise ConfigError(f"{self._path}: configTable is not a table of tables of text")
        self._tables = tables
        self._bytes = len(content)

    def get(self, namespace: str, key: str) -> str | None:
        return self._tables.get(namespace, {}).get(key)

    def table(self, namespace: str) -> dict[str, str] | None:
        """All keys of a namespace; None if it never had a key. The caller must not change it."""
        return self._tables.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Sets one value, durably. ConfigError when full, OSError when it cannot be written."""
        async with self._one_change:
            added = len(namespace) + len(key) + len(value)
            if added + self._bytes > BYTES_MAX:
                raise ConfigError(f"the key-value configuration is full: {BYTES_MAX} bytes")
            table = {**self._tables.get(namespace, {}), key: value}
            await self._replace({**self._tables, namespace: table})

    async def delete(self, namespace: str, key: str) -> None:
        """Removes one value, durably; removing what is not there is no error."""
        async with self._one_change:
            table = self._tables.get(namespace)
            if table is None or key not in table:
                if not self._is_file_known:
                    await self._replace(self._tables)
                return
            kept = {k: v for k, v in table.items() if k != key}
            await self._replace({**self._tables, namespace: kept})

    async def _replace(self, tables: Tables) -> None:
        content = fastjson.dumps({"configTable": tables})
        if self._path is not None:
            self._is_file_known = False
            await asyncio.to_thread(atomic_file.replace, self._path, content)
            self._is_file_known = True
        self._tables = tables
        self._bytes = len(content)


def _is_tables(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str)
        and isinstance(table, dict)
        and all(isinstance(k, str) and isinstance(v, str) for k, v in table.items())
        for name, table in value.items()
    )
