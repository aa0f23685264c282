"""Broker guard: the accounts of a broker's process. They also say how the broker signs its own
requests to others, and whether it sends them over TLS."""

from __future__ import annotations

from pathlib import Path

from rmq.auth.guard import Guard
from rmq.config import Settings
from rmq.serving import identity


def open_guard(broker: Settings) -> Guard:
    """The guard, already opened and following changes of its file. Raises ConfigError for accounts
    that cannot be used."""
    config = Path(broker.storePathRootDir).expanduser() / "config"
    guard = Guard(broker, config, broker.brokerClusterName)
    guard.open()
    guard.start()
    identity.take(guard.credentials, broker)
    return guard
