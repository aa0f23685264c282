"""`rmq spark shell` asks brokers with the account and the TLS that the command line was given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from rmq.cli import spark
from rmq.client.blocking import credentials, encryption
from rmq.format.client_tls import ClientTls
from rmq.format.signature import Credentials
from rmq.spark.listener import OffsetListener

NAMESRV = "10.0.0.5:9876"
ACCOUNT = {"nameserver": NAMESRV, "accessKey": "alice", "secretKey": "geheim", "tls": "true",
           "tlsVerify": "true", "tlsCaFile": "/ca.pem"}  # fmt: skip


class Recorded:
    """A reader or a writer of a session that keeps the options it is given."""

    def __init__(self) -> None:
        self.said: dict[str, object] = {}

    def __getattr__(self, name: str) -> Any:
        if name in ("read", "readStream", "write"):
            return self
        return lambda *_: self  # of format, mode, load and save

    def option(self, name: str, value: object) -> Recorded:
        self.said[name] = value
        return self

    def options(self, **more: object) -> Recorded:
        self.said.update(more)
        return self


@pytest.fixture(autouse=True)
def _asker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ClientTls, "context", lambda _: None)  # because the file does not exist
    with credentials.instead(Credentials("alice", "geheim")), encryption.forgotten():
        encryption.use(RMQ_TLS="1", RMQ_TLS_CA="/ca.pem")
        yield
        encryption.forget()


def test_what_is_read_and_sent_is_asked_as_the_account() -> None:
    session = Recorded()
    names = spark._names(session, spark._access(NAMESRV))
    names["topic"]("orders", tags="a")
    wanted = {**ACCOUNT, "topic": "orders"}
    assert session.said == {**wanted, "tags": "a", "pushdown": "true"}
    session.said.clear()
    names["stream"]("orders")
    assert session.said == wanted
    session.said.clear()
    names["send"](session, "orders")
    assert session.said == wanted


def test_streams_commit_as_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[OffsetListener] = []

    def build(name: str, master: str, settings: dict[str, str], asker: dict[str, Any]) -> Recorded:
        built.append(OffsetListener(**asker))
        made = Recorded()
        made.sparkContext = made  # type: ignore[attr-defined]
        return made

    monkeypatch.setattr("rmq.spark.session.build_session", build)
    spark._session("local[1]", {})
    access_key, secret_key, token, tls = built[0]._account
    assert (access_key, secret_key, token) == ("alice", "geheim", None)
    assert tls is not None and tls.ca_file == "/ca.pem"
