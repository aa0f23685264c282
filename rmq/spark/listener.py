"""Listener: commits at the brokers what streaming queries have read; shows how far behind they are.

    spark.streams.addListener(OffsetListener())

For every query with commitOffsets=true and group=G: after each finished batch the group's offsets
become the batch's end, so rmq group describe, mqadmin consumerProgress and consoles see the query
with its lag. The query itself goes on from its checkpoint; only a query that begins with
startingOffsets=group reads these offsets. If a broker is away, a warning is logged.

lag[query name or id] is the number of messages that were waiting when the query's last batch was
planned. Every query that reads rmq has an entry.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from rmq.arrow.access import Access, client_tls
from rmq.arrow.offsets import QueueKey, from_json
from rmq.errors import RmqError
from rmq.spark.offset_commits import commit_offsets

log = logging.getLogger("rmq.spark")


class OffsetListener(StreamingQueryListener):
    """One listener serves all queries of a session. The offsets of a query name its group and name
    server, but no account and no TLS settings: those are given here."""

    def __init__(
        self,
        access_key: str | None = None,
        secret_key: str | None = None,
        tls: bool = False,
        tls_ca_file: str | None = None,
        *,
        security_token: str | None = None,
        tls_verify: bool = True,
        tls_cert_file: str | None = None,
        tls_key_file: str | None = None,
        tls_key_password: str | None = None,
    ) -> None:
        super().__init__()
        self.lag: dict[str, int] = {}
        self.committed = 0  # batches whose offsets brokers have
        encrypted = client_tls(
            tls, tls_ca_file, tls_verify, tls_cert_file, tls_key_file, tls_key_password
        )
        self._account = (access_key, secret_key, security_token, encrypted)
        self._names: dict[str, str] = {}  # query id -> its key in `lag`

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        waiting: int | None = None
        for source in event.progress.sources:
            end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
            if end is None:
                continue
            about = end.pop("", None)
            reached = from_json(end)
            if latest is not None:
                latest.pop("", None)
                behind = sum(max(0, last - reached.get(key, last))
                             for key, last in from_json(latest).items())  # fmt: skip
                waiting = behind + (waiting or 0)
            if about is not None:
                self._commit(about, reached)
        if waiting is not None:
            key = event.progress.name or str(event.progress.id)
            self._names[str(event.progress.id)] = key
            self.lag[key] = waiting

    def _commit(self, about: Mapping[str, str], reached: Mapping[QueueKey, int]) -> None:
        try:
            commit_offsets(Access(about["nameserver"], *self._account), about["group"], reached)
            self.committed += 1
        except RmqError as error:
            log.warning("group %s: offsets are not committed: %s", about["group"], error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.lag.pop(self._names.pop(str(event.id), ""), None)


def _offsets(text: Any) -> dict[str, Any] | None:
    """The offsets of a query that reads rmq; None for those of other sources."""
    if isinstance(text, str):
        try:
            text = json.loads(text)
        except (ValueError, RecursionError):
            return None
    if not isinstance(text, Mapping):
        return None
    for topic, brokers in text.items():
        # Kafka's have no brokers between topic and partition.
        if topic and not (isinstance(brokers, Mapping) and all(map(_is_queues, brokers.values()))):
            return None
    return dict(text)


def _is_queues(offsets: Any) -> bool:
    return isinstance(offsets, Mapping) and all(
        str(queue).isdigit() and isinstance(offset, int) for queue, offset in offsets.items()
    )
