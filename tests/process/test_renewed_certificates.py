"""A server's certificate and the authorities that it trusts are replaced while it serves: connected
clients go on, new ones are let in by the old files or the new ones, and no request fails.

Method: a broker process with its name server, and clients that never stop connecting and asking.
The servers look at their files each second of a clock that the test drives. So between two changes
a number of clients come, however long that takes.
"""

from __future__ import annotations

import shutil
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.certificates import Authority, Pair, lay
from support.driven_clock import process_clock
from support.tls_client import REFUSED, SEND, Client, trusting
from support.waiting import wait_until

from rmq.format.remoting import Command

WHERE = pytest.mark.parametrize("where", ["broker", "name server"])
CAME_MIN = 10  # clients of each kind between two changes


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@dataclass
class Load:
    """Work that goes on in threads until the block ends. `failures` are exceptions of that work."""

    failures: list[Exception] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def goes_on(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                while not self._ended.is_set():
                    work()
            except Exception as error:  # the test shows which it is
                self.failures.append(error)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def until(self, condition: Callable[[], object]) -> None:
        wait_until(lambda: self.failures or condition())
        assert self.failures == []

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def load() -> Iterator[Load]:
    given = Load()
    try:
        yield given
    finally:
        given.end()
    assert given.failures == []


@contextmanager
def served(folder: Path, settings: Sequence[str]) -> Iterator[BrokerProcess]:
    """A broker whose driven clock goes on second by second."""
    with (
        process_clock(folder) as clock,
        broker_process(folder / "b", settings, clock.environment) as broker,
        clock.passing(),
    ):
        yield broker


def address_of(broker: BrokerProcess, where: str) -> str:
    return broker.address if where == "broker" else broker.namesrv


def ask(client: Client, where: str) -> Command:
    """A request that the server answers with 0: a send to the broker, or for a route."""
    reply = client.ask(310, b"x", **SEND) if where == "broker" else client.ask(105, topic="TBW102")
    assert reply.code == 0, reply.remark
    return reply


def test_certificates_are_renewed_without_a_failed_request(
    tmp_path: Path, authority: Authority
) -> None:
    """As long as only the certificate is new and does not fit the old key, the server shows the old
    certificate. Once both files are new, it shows the new one. A connected client goes on."""
    old, new = authority.pair("old"), authority.pair("new")
    used = Pair(tmp_path / "used.pem", tmp_path / "used.key")

    def shown(address: str) -> str:
        with Client(address, trusting(authority)) as client:
            assert isinstance(client.socket, ssl.SSLSocket)
            subject = client.socket.getpeercert()
            assert subject is not None
            assert client.ask(105, topic="TBW102").code in (0, 3)
            return str(subject["subject"])

    lay(old, used)
    with served(tmp_path, used.settings("enforcing")) as broker:
        addresses = (broker.address, broker.namesrv)
        with Client(broker.address, trusting(authority)) as client:
            assert all("'old'" in shown(address) for address in addresses)
            shutil.copy(new.certificate, tmp_path / "next")
            (tmp_path / "next").rename(used.certificate)
            broker.logged("the certificates before are shown on")
            assert all("'old'" in shown(address) for address in addresses)
            lay(new, used)
            wait_until(lambda: all("'new'" in shown(address) for address in addresses))
            assert client.ask(310, b"x", **SEND).code == 0, "who was there goes on"


@WHERE
def test_certificates_are_renewed_under_load(
    tmp_path: Path, authority: Authority, where: str
) -> None:
    """While certificates are replaced again and again, a connected client goes on, and new clients
    are let in and see the old or the new one. The last new certificate has the same key as the one
    before, so that the two files always fit."""
    pairs = [authority.pair(f"round-{number}") for number in range(4)]
    used = Pair(tmp_path / "used.pem", tmp_path / "used.key")
    lay(pairs[0], used)
    asked, came = list[int](), list[str]()
    with (
        served(tmp_path, used.settings("enforcing")) as broker,
        Client(address_of(broker, where), trusting(authority)) as stays,
        load() as clients,
    ):

        def come() -> None:
            with Client(address_of(broker, where), trusting(authority)) as client:
                assert isinstance(client.socket, ssl.SSLSocket)
                ask(client, where)
                subject = client.socket.getpeercert()
                assert subject is not None
                came.append(str(subject["subject"]))

        clients.goes_on(lambda: asked.append(ask(stays, where).code))
        clients.goes_on(come)
        for name, pair in [
            *((f"round-{number}", pair) for number, pair in enumerate(pairs)),
            ("same-key", authority.renewed(pairs[-1], "same-key")),
        ]:
            mark = len(came) + CAME_MIN
            lay(pair, used)
            clients.until(
                lambda name=name, mark=mark: len(came) >= mark and f"'{name}'" in came[-1]
            )
    assert set(asked) == {0}


def believe(path: Path, *texts: bytes) -> None:
    """Replaces the file in one step: it has all of these certificates, or what it had before."""
    beside = path.with_name("next")
    beside.write_bytes(b"".join(texts))
    beside.rename(path)


# The authorities that the server trusts, one set after the other. It never trusts the stranger.
BELIEVED = [{"one"}, {"one", "two"}, {"two"}, {"one", "two"}, {"one"}]


@WHERE
def test_whom_a_server_believes_is_changed_under_load(
    tmp_path: Path, authority: Authority, where: str
) -> None:
    """The file of tls.server.trustCertPath is replaced. Clients of an authority that is trusted
    before and after are let in all the time, those of a new one from some connection on, those of a
    removed one up to some connection. Connected clients stay. A file without certificates changes
    nothing."""
    others = {name: Authority(tmp_path, name) for name in ("one", "two", "stranger")}
    shown = {name: each.pair(f"by-{name}") for name, each in others.items()}
    texts = {name: each.certificate.read_bytes() for name, each in others.items()}
    believed = tmp_path / "believed.pem"
    believe(believed, texts["one"])
    settings = authority.pair("server").settings(
        "permissive", **{"need.client.auth": "require", "trustCertPath": believed}
    )
    asked = list[int]()
    came: dict[str, list[bool]] = {name: [] for name in others}  # name -> whether it was let in

    def context_of(name: str) -> ssl.SSLContext:
        context = trusting(authority)
        context.load_cert_chain(shown[name].certificate, shown[name].key)
        return context

    with (
        served(tmp_path, settings) as broker,
        Client(address_of(broker, where), context_of("one")) as stays,
        load() as clients,
    ):

        def come(name: str) -> None:
            try:
                with Client(address_of(broker, where), context_of(name)) as client:
                    ask(client, where)
            except REFUSED:
                came[name].append(False)
            else:
                came[name].append(True)

        def came_since(marks: dict[str, int], count: int = CAME_MIN) -> bool:
            return all(len(came[name]) >= mark + count for name, mark in marks.items())

        clients.goes_on(lambda: asked.append(ask(stays, where).code))
        for name in others:
            clients.goes_on(partial(come, name))
        clients.until(lambda: came_since(dict.fromkeys(others, 0)))
        for before, now in pairwise(BELIEVED):
            marks = {name: len(found) for name, found in came.items()}
            believe(believed, *(texts[name] for name in sorted(now)))
            clients.until(
                lambda marks=marks, now=now: (
                    came_since(marks) and all(came[name][-1] == (name in now) for name in others)
                )
            )
            found = {name: came[name][mark:] for name, mark in marks.items()}
            assert all(all(found[name]) for name in before & now), found
            assert all(found[name] == sorted(found[name]) for name in now - before), found
            assert all(found[name] == sorted(found[name])[::-1] for name in before - now), found
        marks = {name: len(found) for name, found in came.items()}
        believe(believed, b"none\n")
        # Each of the two servers in the process has looked at the file.
        clients.until(lambda: broker.log().count("the certificates before are shown on") >= 2)
        clients.until(lambda: came_since(marks))
        for name, mark in marks.items():
            assert set(came[name][mark:]) == {name == "one"}, name
    assert set(asked) == {0}
    assert not any(came["stranger"])
