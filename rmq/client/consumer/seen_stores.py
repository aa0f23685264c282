"""Stores of @deduplicate: which keys are claimed or done.

    SqliteStore("seen.db")                                       # one machine
    DbApiStore(psycopg, "dbname=shop", keep_s=7 * 86400)         # any DB-API 2.0 module
    RedisStore(redis.Redis("cache"))                             # pip install 'rmq[redis]'

A row is (id, owner, until_ms, done). After until_ms a claim is free again, and a key that is done
is forgotten. Keys of more than 200 characters are kept as their SHA-256. Each thread has its own
connection to a database, which is made again when it breaks; a batch is one transaction.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rmq.base import clock, waits
from rmq.client.consumer.deduplication import Claim
from rmq.errors import ConfigError, not_copied

KEEP_S = 3 * 86_400.0  # as long as brokers keep messages by default
KEY_LENGTH_MAX = 200
FORGET_EVERY_S = 60.0
TRIES = 5  # of a transaction that collides with another one, or whose connection breaks
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MARKS: dict[str, Callable[[int], str]] = {
    "qmark": lambda i: "?", "format": lambda i: "%s", "pyformat": lambda i: f"%(p{i})s",
    "numeric": lambda i: f":{i}", "named": lambda i: f":p{i}",
}  # fmt: skip


def _short(key: str) -> str:
    if len(key) <= KEY_LENGTH_MAX:
        return key
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def _now_ms() -> int:
    return clock.now_ms()


class DbApiStore:
    """A table in a database whose module follows DB-API 2.0 (PEP 249)."""

    def __init__(
        self, module: Any, *arguments: Any, table: str = "rmq_seen", keep_s: float = KEEP_S,
        **named: Any,
    ) -> None:  # fmt: skip
        """Connects by module.connect(*arguments, **named), and makes the table if there is none."""
        if not NAME.fullmatch(table):
            raise ConfigError(f"table={table!r}: letters, digits and _")
        self._module = module
        self._connect: Callable[[], Any] = lambda: module.connect(*arguments, **named)
        self._table = table
        self._keep_ms = int(keep_s * 1000)
        self._owner = secrets.token_hex(16)
        self._own = threading.local()
        self._all: list[Any] = []
        self._lock = threading.Lock()
        self._forget_at = 0.0
        self._make_table()

    def __reduce__(self) -> NoReturn:
        raise not_copied(self, "make one in each process; they share what it stores")

    def close(self) -> None:
        """Closes the connections of all threads."""
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()
            self._own = threading.local()

    def _connection(self) -> Any:
        found = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = self._opened()
            with self._lock:
                self._all.append(found)
        return found

    def _opened(self) -> Any:
        return self._connect()

    def _do(self, cursor: Any, text: str, *values: Any) -> Any:
        """Runs a statement in which each value is written as ?, and the table as SEEN."""
        style = self._module.paramstyle
        marks = iter(range(1, len(values) + 1))
        text = re.sub(r"\?", lambda _: MARKS[style](next(marks)), text)
        named = style in ("pyformat", "named")
        given: Any = {f"p{i}": value for i, value in enumerate(values, 1)} if named else values
        cursor.execute(text.replace("SEEN", self._table), given)
        return cursor

    def _make_table(self) -> None:
        connection = self._connection()
        try:
            self._do(connection.cursor(), "SELECT id FROM SEEN WHERE id = ?", "")
            connection.rollback()
        except self._module.Error:
            connection.rollback()
            columns = (
                "id VARCHAR(255) PRIMARY KEY, owner VARCHAR(32) NOT NULL, "
                "until_ms BIGINT NOT NULL, done INTEGER NOT NULL"
            )
            try:
                self._do(connection.cursor(), f"CREATE TABLE SEEN ({columns})")
                connection.commit()
            except self._module.Error:  # another process has made it meanwhile
                connection.rollback()
                self._do(connection.cursor(), "SELECT id FROM SEEN WHERE id = ?", "")
                connection.rollback()

    def _transaction(self, work: Callable[[Any], Any]) -> Any:
        again = (
            self._module.IntegrityError, self._module.OperationalError, self._module.InterfaceError,
        )  # fmt: skip
        for attempt in range(TRIES):
            connection = self._connection()
            try:
                result = work(connection.cursor())
                connection.commit()
                return result
            except again:
                self._undo(connection)
                if attempt + 1 == TRIES:
                    raise
                waits.sleep(0.01 * 2**attempt)
            except BaseException:
                self._undo(connection)
                raise

    def _undo(self, connection: Any) -> None:
        """Rolls back. A connection that fails to is broken, and is not used again."""
        try:
            connection.rollback()
        except self._module.Error:
            del self._own.connection
            with self._lock:
                self._all.remove(connection)
            with contextlib.suppress(self._module.Error):
                connection.close()

    # ---- called by deduplicate

    def claim(self, keys: Sequence[str], lease_s: float) -> list[Claim]:
        self._forget()
        names = [_short(key) for key in keys]
        # the same order everywhere, so that two batches cannot wait for each other
        order = sorted(range(len(names)), key=names.__getitem__)

        def work(cursor: Any) -> list[Claim]:
            found = [Claim.BUSY] * len(names)
            for i in order:
                found[i] = self._claim_one(cursor, names[i], lease_s)
            return found

        result: list[Claim] = self._transaction(work)
        return result

    def _claim_one(self, cursor: Any, name: str, lease_s: float) -> Claim:
        now = _now_ms()
        until = now + int(lease_s * 1000)
        self._do(cursor, "SELECT until_ms, done FROM SEEN WHERE id = ?", name)
        row = cursor.fetchone()
        if row is None:
            self._do(
                cursor, "INSERT INTO SEEN (id, owner, until_ms, done) VALUES (?, ?, ?, 0)",
                name, self._owner, until,
            )  # fmt: skip
            return Claim.OURS
        if row[0] > now:
            return Claim.DONE if row[1] else Claim.BUSY
        self._do(
            cursor,
            "UPDATE SEEN SET owner = ?, until_ms = ?, done = 0 WHERE id = ? AND until_ms = ?",
            self._owner, until, name, row[0],
        )  # fmt: skip
        return Claim.OURS if cursor.rowcount == 1 else Claim.BUSY

    def finish(self, keys: Sequence[str]) -> None:
        until = _now_ms() + self._keep_ms

        def work(cursor: Any) -> None:
            for name in sorted(map(_short, keys)):
                self._do(cursor, "UPDATE SEEN SET until_ms = ?, done = 1 WHERE id = ?", until, name)
                if cursor.rowcount == 0:
                    self._insert_done(cursor, name, until)

        self._transaction(work)

    def _insert_done(self, cursor: Any, name: str, until: int) -> None:
        """Inserts the row of a done key, unless it is there. It may be missing if a call took
        longer than its lease. It is looked up first, since some databases count only rows that an
        UPDATE has really changed."""
        self._do(cursor, "SELECT id FROM SEEN WHERE id = ?", name)
        if cursor.fetchone() is None:
            self._do(
                cursor, "INSERT INTO SEEN (id, owner, until_ms, done) VALUES (?, ?, ?, 1)",
                name, self._owner, until,
            )  # fmt: skip

    def release(self, keys: Sequence[str]) -> None:
        def work(cursor: Any) -> None:
            for name in sorted(map(_short, keys)):
                self._do(
                    cursor, "DELETE FROM SEEN WHERE id = ? AND owner = ? AND done = 0",
                    name, self._owner,
                )  # fmt: skip

        self._transaction(work)

    def _forget(self) -> None:
        """Now and then deletes the rows whose time is over."""
        with self._lock:
            if clock.monotonic() < self._forget_at:
                return
            self._forget_at = clock.monotonic() + FORGET_EVERY_S
        self._transaction(
            lambda cursor: self._do(cursor, "DELETE FROM SEEN WHERE until_ms < ?", _now_ms())
        )


class SqliteStore(DbApiStore):
    """A SQLite file of this machine; several processes may share it."""

    def __init__(
        self, path: str | Path, *, table: str = "rmq_seen", keep_s: float = KEEP_S
    ) -> None:
        import sqlite3

        if str(path) in ("", ":memory:"):
            raise ConfigError("SqliteStore wants a file: each thread opens it for itself")
        super().__init__(
            sqlite3, str(path), table=table, keep_s=keep_s, timeout=10.0, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip

    def _opened(self) -> Any:
        connection = super()._opened()
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _transaction(self, work: Callable[[Any], Any]) -> Any:
        def begun(cursor: Any) -> Any:
            # Two transactions that read first and write later could make each other fail.
            cursor.execute("BEGIN IMMEDIATE")
            return work(cursor)

        return super()._transaction(begun)


RELEASE = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0
"""


class RedisStore:
    """Keys in Redis (or Valkey), which deletes them by itself when their time is over."""

    def __init__(self, client: Any, *, prefix: str = "rmq:seen:", keep_s: float = KEEP_S) -> None:
        """`client` is a redis.Redis."""
        self._client = client
        self._prefix = prefix
        self._keep_ms = int(keep_s * 1000)
        self._token = f"begun:{secrets.token_hex(8)}"
        self._release = client.register_script(RELEASE)

    def __reduce__(self) -> NoReturn:
        raise not_copied(self, "make one in each process; they share what it stores")

    def _name(self, key: str) -> str:
        return self._prefix + _short(key)

    def claim(self, keys: Sequence[str], lease_s: float) -> list[Claim]:
        names = [self._name(key) for key in keys]
        with self._client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.set(name, self._token, nx=True, px=max(int(lease_s * 1000), 1))
                pipe.get(name)
            answers = pipe.execute()
        found = []
        for taken, now in zip(answers[::2], answers[1::2], strict=True):
            if taken:
                found.append(Claim.OURS)
            else:  # now is None: the key expired between the two; the next delivery claims it
                found.append(Claim.DONE if now in (b"done", "done") else Claim.BUSY)
        return found

    def finish(self, keys: Sequence[str]) -> None:
        with self._client.pipeline(transaction=True) as pipe:
            for key in keys:
                pipe.set(self._name(key), "done", px=self._keep_ms)
            pipe.execute()

    def release(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._release(keys=[self._name(key)], args=[self._token])
