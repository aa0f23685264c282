"""Broker guard: the accounts of a broker's process, by which it also signs what it asks of others,
and whether it asks by TLS."""

from __future__ import annotations

from pathlib import Path

from rmq.auth.guard import Guard
from rmq.config import Settings
from rmq.serving import identity


def open_guard(broker: Settings) -> Guard:
    """Open, and following its file; ConfigError for accounts that cannot be used."""
    config = Path(broker.storePathRootDir).expanduser() / "config"
    guard = Guard(broker, config, broker.brokerClusterName)
    guard.open()
    guard.start()
    identity.take(guard.credentials, broker)
    return guard
