"""Account rows: what signatures and permissions cost the broker.

    accounts    1 connection, window 64: CPU-s/M with accounts to the same without

The sender is not a Super user. It is one of about a hundred users and has ten entries; the one that
permits its sends is a prefix of the topic's name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from rounds import Outcome
from rows import Bench, Row, Sliced, compare_cpu, in_rounds, sends, topic_queues
from servers import Ours

from rmq.client.blocking.accounts import Accounts, entry
from rmq.client.blocking.cluster import Cluster
from rmq.format.signature import Credentials
from rmq.load.frames import Queue, SendShape, send_frames
from rmq.load.run import open_producer

ADMIN = Credentials("admin", "top secret")
SENDER = Credentials("sender", "another secret")
OTHERS = 100
SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"admin","password":"top secret"}',
}


@contextmanager
def armed(bench: Bench) -> Iterator[Ours]:
    keys = {"RMQ_ACCESS_KEY": ADMIN.access_key, "RMQ_SECRET_KEY": ADMIN.secret_key}
    with patch.dict(os.environ, keys), bench.ours(name="accounts", **SETTINGS) as ours:
        make_users(ours.name_server)
        yield ours


def make_users(name_server: str) -> None:
    entries = [entry(f"Topic:of-others-{n}*", ["Pub", "Sub"]) for n in range(9)]
    with Cluster(name_server) as cluster:
        accounts = Accounts(cluster)
        for n in range(OTHERS):
            accounts.create_user(f"other-{n}", f"secret-{n}")
        accounts.create_user(SENDER.access_key, SENDER.secret_key)
        sender = [*entries, entry("Topic:bench*", ["Pub"])]
        accounts.put_acl(SENDER.access_key, sender)


def signed_sends(bench: Bench, ours: Ours, queues: list[Queue]) -> Sliced:
    shape = SendShape(bench.body_bytes, credentials=SENDER)
    loop = open_producer(send_frames(queues, shape), list(ours.addresses), 64)
    return Sliced(bench, ours, loop)


def with_accounts(bench: Bench) -> Outcome:
    outcome = Outcome("accounts", "signatures and permissions: CPU-s/M to the same without", 1.6)
    with bench.ours() as plain, armed(bench) as ours:
        rounds = in_rounds(
            bench,
            sends(bench, plain, topic_queues(plain), 1, 64).slice,
            signed_sends(bench, ours, topic_queues(ours)).slice,
        )
    return compare_cpu(outcome, rounds, "without with")


ACCOUNT_ROWS: dict[str, Row] = {"accounts": with_accounts}
