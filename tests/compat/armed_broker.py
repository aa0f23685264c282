"""A broker and name server that let in nobody without an account, and their first Super user.

With settings_by_tls() they also use TLS, as servers and when they ask other servers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from compat.targets import RmqTarget
from support.certificates import Authority

ARMED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"admin","password":"top secret"}',
}
ADMIN = {"accessKey": "admin", "secretKey": "top secret"}


@contextmanager
def started(folder: Path, **settings: str) -> Iterator[RmqTarget]:
    keys = {"RMQ_ACCESS_KEY": ADMIN["accessKey"], "RMQ_SECRET_KEY": ADMIN["secretKey"]}
    keys |= {"RMQ_TLS": "1"} if "tls.server.mode" in settings else {}
    with patch.dict(os.environ, keys):
        target = RmqTarget(folder, {**ARMED, "transactionCheckInterval": "1000", **settings})
        target.start()
    yield target
    target.stop()


def settings_by_tls(authority: Authority, name: str) -> dict[str, str]:
    """Settings with which plain clients are not served, and servers check the certificates of
    servers that they ask."""
    pair = authority.pair(name)
    return {
        "tls.server.mode": "enforcing", "tls.server.certPath": str(pair.certificate),
        "tls.server.keyPath": str(pair.key), **believing(authority.certificate),
    }  # fmt: skip


def believing(authority: Path) -> dict[str, str]:
    """What makes a server or JVM believe this authority only when it asks by TLS: settings of a
    server, properties of a JVM."""
    return {
        "tls.enable": "true", "tls.test.mode.enable": "false", "tls.client.authServer": "true",
        "tls.client.trustCertPath": str(authority),
    }  # fmt: skip
