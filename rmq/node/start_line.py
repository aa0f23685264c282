"""Start line: the first line of a server's log, and what its start found in the store.

    rmq 0.1.0 (6fe24436) starts as process 4711: broker broker-a for clients at 127.0.0.1:10911, its
        data is in /var/lib/rmq/store; name server at 127.0.0.1:9876
    the store /var/lib/rmq/store was closed properly; its log has 1.2 GB of messages

The details of the store's recovery (docs/design/log.md) are a line at level DEBUG.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rmq.base.build import build_text
from rmq.config import Settings


def start_text(namesrv: Settings | None, broker: Settings | None, shards: int = 1) -> str:
    parts = []
    if broker is not None:
        port = broker.listenPort
        where = f"{broker.brokerIP1}:{port}" if port else f"a free port of {broker.brokerIP1}"
        in_shards = f", in {shards} processes, the first one" if shards > 1 else ""
        parts.append(f"broker {broker.brokerName}{in_shards} for clients at {where}, its data is "
                     f"in {broker.storePathRootDir}")  # fmt: skip
    if namesrv is not None:
        parts.append(f"name server at {_listens(namesrv)}")
    elif broker is not None:
        parts.append(f"it registers at name server {broker.namesrvAddr or 'none'}")
    return f"{_begin()}: {'; '.join(parts)}"


def controller_start_text(settings: Settings) -> str:
    state = "etcd" if settings.rmqEtcd else settings.controllerStorePath
    return f"{_begin()}: controller at {_listens(settings)}, its state is in {state}"


def opened_text(store: str, report: Mapping[str, Any]) -> str:
    """The line about the store, from the report of its recovery."""
    size = int(report.get("log_end", 0)) - int(report.get("log_min", 0))
    if not size:
        return f"the store {store} holds no messages yet"
    how = "was closed properly"
    if not report.get("clean"):
        how = f"was not closed properly: {report.get('records_scanned', 0)} messages were looked at"
    return f"the store {store} {how}; its log has {_bytes(size)} of messages"


def _begin() -> str:
    return f"rmq {build_text()} starts as process {os.getpid()}"


def _listens(settings: Settings) -> str:
    """The address it is bound to; a reader of the log is on this machine."""
    host = f"[{settings.bindAddress}]" if ":" in settings.bindAddress else settings.bindAddress
    port = settings.listenPort
    return f"{host}:{port}" if port else f"a free port of {host}"


def _bytes(size: int) -> str:
    for unit, count in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= count:
            return f"{size / count:.1f} {unit}"
    return f"{size} bytes"
