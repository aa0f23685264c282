"""A broker and name server that let in nobody without an account, and their first Super user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from compat.targets import RmqTarget

ARMED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"admin","password":"top secret"}',
}
ADMIN = {"accessKey": "admin", "secretKey": "top secret"}


@contextmanager
def started(folder: Path, **settings: str) -> Iterator[RmqTarget]:
    keys = {"RMQ_ACCESS_KEY": ADMIN["accessKey"], "RMQ_SECRET_KEY": ADMIN["secretKey"]}
    with patch.dict(os.environ, keys):
        target = RmqTarget(folder, {**ARMED, "transactionCheckInterval": "1000", **settings})
        target.start()
    yield target
    target.stop()
