"""Tells the brokers what streaming queries have read, and how far behind they are.

    spark.streams.addListener(OffsetListener())

For every query with commitOffsets=true and group=G: after each finished batch the group's offsets
become the batch's end, so rmq group describe, mqadmin consumerProgress and consoles see the query
with its lag. The checkpoint stays the truth; nothing is ever read from these offsets (but by
startingOffsets=group). A broker that is away costs a warning.

lag[query name or id] is the number of messages that waited when the last batch was planned.
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

from rmq.errors import RmqError
from rmq.spark.access import Access
from rmq.spark.committing import commit_offsets
from rmq.spark.offsets import from_json

log = logging.getLogger("rmq.spark")


class OffsetListener(StreamingQueryListener):
    """One for all queries of a session. Accounts and TLS are not in the offsets: give them here."""

    def __init__(
        self,
        access_key: str | None = None,
        secret_key: str | None = None,
        tls: bool = False,
        tls_ca_file: str | None = None,
    ) -> None:
        super().__init__()
        self.lag: dict[str, int] = {}
        self.committed = 0  # batches told to the brokers
        self._account = (access_key, secret_key, None, tls, tls_ca_file)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        waiting = 0
        for source in event.progress.sources:
            end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
            if end is None or "" not in end:
                continue
            about = end.pop("")
            reached = from_json(end)
            if latest is not None:
                latest.pop("", None)
                waiting += sum(max(0, last - reached.get(key, last))
                               for key, last in from_json(latest).items())  # fmt: skip
            try:
                commit_offsets(Access(about["nameserver"], *self._account), about["group"], reached)
                self.committed += 1
            except RmqError as error:
                log.warning("group %s: offsets not told: %s", about["group"], error)
        self.lag[event.progress.name or str(event.progress.id)] = waiting

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.lag.pop(str(event.id), None)


def _offsets(text: Any) -> dict[str, Any] | None:
    """Of our own form; None for other sources."""
    if isinstance(text, str):
        try:
            text = json.loads(text)
        except ValueError:
            return None
    if not isinstance(text, Mapping) or not all(isinstance(each, dict) for each in text.values()):
        return None
    return dict(text)
