"""Accounts: a broker with accounts, and requests that are sent in the name of one.

with broker_process(tmp_path, ARMED) as broker, account(ADMIN):
    make_alice(broker)              # Pub and Sub on orders*, and on groups billing*
    with account(ALICE):
        asked(broker.address, 30, {"topic": "orders", "queueId": 0})
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import CompletedProcess
from unittest.mock import patch

from support.broker_process import BrokerProcess
from support.command_line import rmq
from support.topics import until_routed

from rmq.client.blocking.connection import Connection
from rmq.format.signature import Credentials

ADMIN = Credentials("admin", "top secret")
ALICE = Credentials("alice", "wonderland")
ARMED = (
    "--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true",
    "--set", 'initAuthenticationUser={"username":"admin","password":"top secret"}',
)  # fmt: skip
NO_PERMISSION = 16


@contextmanager
def account(who: Credentials | None) -> Iterator[None]:
    """Signs the requests of the command line and of blocking connections during the block with this
    account. None: they are not signed."""
    given = {"RMQ_ACCESS_KEY": who.access_key, "RMQ_SECRET_KEY": who.secret_key} if who else {}
    with patch.dict(os.environ, given):
        if who is None:
            os.environ.pop("RMQ_ACCESS_KEY", None)
        yield


def make_alice(broker: BrokerProcess) -> None:
    with patch.dict(os.environ, {"RMQ_NEW_PASSWORD": ALICE.secret_key}):
        done = command(broker, "user", "create", "alice")
    assert broker.address in done.stdout
    command(broker, "topic", "create", "orders")
    until_routed(broker.namesrv, "orders", {"broker-a": 8})
    command(broker, "acl", "allow", "alice", "Topic:orders*", "Group:billing*", "-a", "Pub,Sub")


def command(broker: BrokerProcess, *words: str, code: int = 0) -> CompletedProcess[str]:
    done = rmq(*words, "-n", broker.namesrv)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def keys(who: Credentials) -> dict[str, str]:
    return {"access_key": who.access_key, "secret_key": who.secret_key}


def asked(address: str, code: int, fields: dict[str, object]) -> tuple[int, str | None]:
    with Connection(address) as connection:
        reply = connection.ask(code, fields)
    return reply.code, reply.remark
