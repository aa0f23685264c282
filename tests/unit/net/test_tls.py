"""TLS inside the reactor, unseen from outside a process: turns, memory, records cut anywhere."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cext.testing.driven_core import DrivenCore
from support.certificates import Authority
from support.driven_clock import DrivenClock
from support.shard import Shard, pull, send
from support.tampered_handshakes import Tampering
from support.threads import thread_named
from support.volume import seeds, volume
from support.waiting import HANG_S, wait_until

from bench.half_open import hello
from cext.net.tls import TlsContext
from rmq.format.frame_reader import FrameReader

STATS = 50
SHORT_STEPS = 16  # limit in cext/net/reactor.pyx
HANDSHAKE_S = 10  # HANDSHAKE_MS in cext/net/connection.pxd


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def shard(tmp_path: Path, authority: Authority) -> Iterator[Shard]:
    pair = authority.pair("server")
    context = TlsContext(str(pair.certificate), str(pair.key), None, None, "none")
    with Shard(tmp_path, tls=(context, True)) as shard:
        shard.topic("t")
        yield shard


class Hidden:
    """A client whose TLS records the test sends itself."""

    def __init__(self, shard: Shard, authority: Authority, first: bytes = b"") -> None:
        """`first`: a request that is sent in one segment with the end of the handshake."""
        self.socket = socket.create_connection(("127.0.0.1", shard.core.port), HANG_S)
        self.inward, self.outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(authority.certificate))
        self.tls = context.wrap_bio(self.inward, self.outward, server_hostname="localhost")
        self.frames = FrameReader()
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.leave()
                self.inward.write(self.socket.recv(65536))
        if first:
            self.tls.write(first)
        self.leave()

    def records(self, plain: bytes) -> bytes:
        self.tls.write(plain)
        return self.outward.read()

    def leave(self) -> None:
        self.socket.sendall(self.outward.read())

    def reply(self) -> int:
        """The opaque of the next answer."""
        while (found := self.frames.next()) is None:
            try:
                self.frames.feed(self.tls.read(65536))
            except ssl.SSLWantReadError:
                piece = self.socket.recv(65536)
                if not piece:
                    raise EOFError from None
                self.inward.write(piece)
        return found.opaque


def turns(shard: Shard) -> int:
    return int(shard.core.stats()["turns"])


def test_a_core_that_was_never_stopped_lets_go_of_its_connections(
    tmp_path: Path, authority: Authority
) -> None:
    """To close a connection needs a part of the core that may be freed before its connections."""
    pair = authority.pair("dropped")
    context = TlsContext(str(pair.certificate), str(pair.key), None, None, "none")
    shard = Shard(tmp_path, tls=(context, True))
    shard.core.open()
    turns = DrivenCore(shard.core)
    with socket.create_connection(("127.0.0.1", shard.core.port), HANG_S):
        while not shard.core.stats()["connections"]:
            turns.turn()
        del turns, shard.core
        gc.collect()


def test_half_a_record_keeps_nobody_busy(shard: Shard, authority: Authority) -> None:
    client = Hidden(shard, authority)
    records = client.records(send("t", b"x" * 1000, 7))
    client.socket.sendall(records[:600])
    shard.until(lambda stats: stats["tls_handshakes"] == 1)
    # By now the reactor has read what was sent before.
    assert shard.connect().ask(send("t", b"y", 1)).code == 0
    before = turns(shard)
    for _ in range(STATS):
        shard.core.stats()
    assert turns(shard) - before < 10 * STATS
    client.socket.sendall(records[600:])
    assert client.reply() == 7


@pytest.mark.parametrize("size", [1, 5, 17, 100])
def test_records_may_come_in_any_pieces(shard: Shard, authority: Authority, size: int) -> None:
    client = Hidden(shard, authority)
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    records = client.records(send("t", b"a", 1)) + client.records(send("t", b"b" * 300, 2))
    for at in range(0, len(records), size):
        client.socket.sendall(records[at : at + size])
    assert [client.reply(), client.reply()] == [1, 2]


def flood_of_key_changes(connected: socket.socket, count: int, request: bytes) -> bytes:
    """Records of TLS 1.3 that only change keys, and a request behind them. Python's ssl has no call
    for this, so OpenSSL makes the handshake on the socket."""
    connected.setblocking(True)
    tls = ctypes.CDLL("libssl.so.3")
    for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new", "BIO_new", "BIO_s_mem"):
        getattr(tls, name).restype = ctypes.c_void_p
    context = ctypes.c_void_p(tls.SSL_CTX_new(ctypes.c_void_p(tls.TLS_client_method())))
    ssl_of = ctypes.c_void_p(tls.SSL_new(context))
    tls.SSL_set_fd(ssl_of, connected.fileno())
    assert tls.SSL_connect(ssl_of) == 1
    outward = ctypes.c_void_p(tls.BIO_new(ctypes.c_void_p(tls.BIO_s_mem())))
    tls.SSL_set0_wbio(ssl_of, outward)
    for _ in range(count):
        assert tls.SSL_key_update(ssl_of, 0) == 1 and tls.SSL_do_handshake(ssl_of) == 1
    assert tls.SSL_write(ssl_of, request, len(request)) == len(request)
    records = ctypes.create_string_buffer(100 * count + 2 * len(request))
    length = tls.BIO_read(outward, records, len(records))
    return records.raw[:length]


def test_who_only_changes_keys_takes_no_turn_of_others(shard: Shard) -> None:
    """Each such record ends the receive that finds it, so others are served in between. A turn
    takes two of them: one that is held already, and one when the socket is readable."""
    with socket.create_connection(("127.0.0.1", shard.core.port), HANG_S) as client:
        records = flood_of_key_changes(client, 2000, send("t", b"x", 1))
        before = turns(shard)
        client.sendall(records)
        shard.until(lambda stats: stats["messages_in"] == 1)
        assert turns(shard) - before >= 1000


def test_many_frames_in_one_record_are_all_answered(shard: Shard, authority: Authority) -> None:
    client = Hidden(shard, authority)
    client.socket.sendall(client.records(b"".join(send("t", b"x", n) for n in range(60))))
    assert sorted(client.reply() for _ in range(60)) == list(range(60))


def test_what_comes_with_the_end_of_a_handshake_is_answered(
    shard: Shard, authority: Authority
) -> None:
    assert Hidden(shard, authority, send("t", b"x", 7)).reply() == 7


def test_records_of_several_turns_and_half_of_one(shard: Shard, authority: Authority) -> None:
    """These are more records than OpenSSL takes from the socket at once, and than a turn takes from
    OpenSSL."""
    client = Hidden(shard, authority)
    records = b"".join(client.records(send("t", b"x" * 9000, number)) for number in range(60))
    half = client.records(send("t", b"y" * 1000, 60))
    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(client.socket.sendall, records + half[:600])
        assert sorted(client.reply() for _ in range(60)) == list(range(60))
        sent.result(HANG_S)
    client.socket.sendall(half[600:])
    assert client.reply() == 60


@pytest.mark.parametrize(("version", "changes"), [("TLSv1_3", True), ("TLSv1_2", False)])
def test_keys_are_changed_while_answers_go_on(
    tmp_path: Path, authority: Authority, version: str, changes: bool
) -> None:
    pair = authority.pair("keys")
    shown = TlsContext(str(pair.certificate), str(pair.key), None, None, "none")
    with Shard(tmp_path, tls=(shown, True), tls_key_records=3) as shard:
        shard.topic("t")
        shard.group("g", "t")
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        trusting.maximum_version = ssl.TLSVersion[version]
        plain = socket.create_connection(("127.0.0.1", shard.core.port), HANG_S)
        with trusting.wrap_socket(plain, server_hostname="localhost") as client:
            frames = FrameReader()
            for number in range(100):
                # Some answers have one record, others many.
                client.sendall(send("t", b"x" * 2000, number) + pull("g", "t", 0, 1000 + number))
                found = set()
                while len(found) < 2:
                    if (frame := frames.next()) is None:
                        frames.feed(client.recv(65536))
                    else:
                        found.add(frame.opaque)
                assert found == {number, 1000 + number}
            updates = shard.core.stats()["tls_key_updates"]
            assert updates > 30 if changes else updates == 0


def test_a_record_that_was_changed_closes_the_connection(
    shard: Shard, authority: Authority
) -> None:
    client = Hidden(shard, authority)
    records = bytearray(client.records(send("t", b"x", 7)))
    records[-3] ^= 1
    client.socket.sendall(records)
    with pytest.raises((EOFError, ssl.SSLError)):
        client.reply()
    assert shard.connect().ask(send("t", b"y", 1)).code == 0


def test_who_leaves_in_a_handshake_leaves_nothing(shard: Shard) -> None:
    hello = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03"
    for number in range(200):
        with socket.create_connection(("127.0.0.1", shard.core.port), HANG_S) as client:
            client.sendall(hello[: 1 + number % len(hello)])
    # Some connections may still wait to be accepted when all accepted ones are gone.
    shard.until(
        lambda stats: (
            stats["connections"] == 0
            and stats["connections_accepted"] + stats["connections_refused"] >= 200
        )
    )
    assert shard.connect().ask(send("t", b"y", 1)).code == 0


@pytest.mark.still_clock
def test_a_handshake_has_ten_seconds(
    clock: DrivenClock, tmp_path: Path, authority: Authority
) -> None:
    """The time begins with the first byte, whatever comes later. It does not count for a connection
    whose handshake is over, or that speaks no TLS."""
    pair = authority.pair("slow")
    context = TlsContext(str(pair.certificate), str(pair.key), None, None, "none")
    whole = hello()
    with Shard(tmp_path, tls=(context, True)) as shard:
        shard.topic("t")
        done, plain = Hidden(shard, authority), shard.connect()
        silent, half, other = shard.connect(), shard.connect(), shard.connect()
        shard.until(lambda now: now["connections"] == 5 and now["tls_handshakes"] == 1)
        shard.look_at_clock()
        clock.advance(30)  # a connection that says nothing may speak no TLS at all
        shard.look_at_clock()
        half.put(whole[: len(whole) // 2])
        other.put(whole)
        assert other.socket.recv(1) == b"\x16", "it is answered, and does not go on"
        shard.look_at_clock()
        began = clock.monotonic()
        clock.advance(HANDSHAKE_S / 2)
        half.put(whole[len(whole) // 2 : -1])
        shard.look_at_clock()
        assert shard.core.stats()["connections"] == 5
        clock.advance(HANDSHAKE_S / 2 + 0.1)
        shard.until(lambda now: now["connections"] == 3)
        assert clock.monotonic() - began < HANDSHAKE_S + 5, "it was not the clock that stands still"
        assert half.is_closed()
        done.socket.sendall(done.records(send("t", b"x", 7)))
        assert done.reply() == 7
        for client in (plain, silent):
            assert client.ask(send("t", b"y", 1)).code == 0
        assert shard.core.stats()["connections_closed_idle"] == 2


def cpu_ns(name: str) -> int:
    """CPU nanoseconds used so far by this process's thread of that name."""
    return int((thread_named(name) / "schedstat").read_text().split()[0])


def rested_cpu_ns(name: str) -> int:
    """The same when the thread sleeps, so that no rest of what it did before is counted later."""
    stat = thread_named(name) / "stat"
    wait_until(lambda: stat.read_text().rpartition(") ")[2].startswith("S"))
    return cpu_ns(name)


def test_what_handshakes_cost_is_not_the_turns(shard: Shard, authority: Authority) -> None:
    reactor, thread = cpu_ns("rmq-reactor"), cpu_ns("rmq-handshakes")
    for _ in range(30):
        Hidden(shard, authority).socket.close()
    shard.until(lambda stats: stats["tls_handshakes"] >= 30)
    assert cpu_ns("rmq-handshakes") - thread > cpu_ns("rmq-reactor") - reactor


def reconnecting(shard: Shard, authority: Authority, version: ssl.TLSVersion) -> Callable[[], None]:
    """Connects a client of this version once. Each call of the result connects it again, with its
    session."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.maximum_version = version
    session: list[ssl.SSLSession | None] = [None]

    def connect() -> None:
        with (
            socket.create_connection(("127.0.0.1", shard.core.port), HANG_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost", session=session[0]) as hidden,
        ):
            hidden.sendall(send("t", b"x", 1))
            assert hidden.recv(1)  # before this byte comes a ticket of TLS 1.3
            session[0] = hidden.session

    connect()
    return connect


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_resuming_needs_the_thread_only_where_keys_are_exchanged(
    shard: Shard, authority: Authority, version: ssl.TLSVersion
) -> None:
    connect = reconnecting(shard, authority, version)
    before = rested_cpu_ns("rmq-handshakes")
    for _ in range(3):
        connect()
    assert shard.core.stats()["tls_resumed"] == 3
    assert (rested_cpu_ns("rmq-handshakes") > before) == (version is ssl.TLSVersion.TLSv1_3)


def test_an_unknown_session_is_replaced_in_the_thread(shard: Shard, authority: Authority) -> None:
    """The reactor reads the hello and stops before the signature, which the thread computes."""
    connect = reconnecting(shard, authority, ssl.TLSVersion.TLSv1_2)
    pair = authority.pair("another")
    context = TlsContext(str(pair.certificate), str(pair.key), None, None, "none")
    shard.core.set_tls(context, True)
    before = cpu_ns("rmq-handshakes")
    connect()
    counts = shard.core.stats()
    assert (counts["tls_handshakes"], counts["tls_resumed"], counts["tls_failed"]) == (2, 0, 0)
    assert cpu_ns("rmq-handshakes") > before
    connect()
    assert shard.core.stats()["tls_resumed"] == 1


def test_a_turn_runs_a_few_short_steps_and_the_thread_the_others(
    shard: Shard, tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> None:
    """The thread of the second core does not run, so the steps that it is given are not
    answered."""
    pair = authority.pair("server")
    context = TlsContext(str(pair.certificate), str(pair.key), None, None, "none")
    client = ssl.create_default_context(cafile=str(authority.certificate))
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    shard.core.set_tls(context, True)
    with (
        socket.create_connection(("127.0.0.1", shard.core.port), HANG_S) as plain,
        client.wrap_socket(plain, server_hostname="localhost") as hidden,
    ):
        session = hidden.session
    other = Shard(tmp_path_factory.mktemp("driven"), tls=(context, True))
    other.core.open()
    turns = DrivenCore(other.core)
    with contextlib.ExitStack() as stack:
        address = ("127.0.0.1", other.core.port)
        sockets = [stack.enter_context(socket.create_connection(address)) for _ in range(20)]
        while other.core.stats()["connections"] < len(sockets):
            turns.turn()
        for each in sockets:
            outward = ssl.MemoryBIO()
            tls = client.wrap_bio(
                ssl.MemoryBIO(), outward, server_hostname="localhost", session=session
            )
            with pytest.raises(ssl.SSLWantReadError):
                tls.do_handshake()
            each.sendall(outward.read())
        turns.turn()
        assert len(select.select(sockets, [], [], 0)[0]) == SHORT_STEPS
        turns.turn()
        assert len(select.select(sockets, [], [], 0)[0]) == SHORT_STEPS, "the thread has the others"


def test_a_farewell_behind_a_request_is_heard(shard: Shard, authority: Authority) -> None:
    client = Hidden(shard, authority)
    records = client.records(send("t", b"x", 7))
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    client.socket.sendall(records + client.outward.read())
    shard.until(lambda stats: stats["connections"] == 0)


def test_a_core_may_go_with_its_connections_open(tmp_path: Path, authority: Authority) -> None:
    """Connections in the middle of a handshake may be open, too."""
    pair = authority.pair("server")
    context = TlsContext(str(pair.certificate), str(pair.key), None, None, "none")
    shard = Shard(tmp_path, tls=(context, True))
    shard.core.open()
    shard.core.start()
    shard.topic("t")
    clients = [Hidden(shard, authority).socket]
    clients += [socket.create_connection(("127.0.0.1", shard.core.port), HANG_S) for _ in range(3)]
    clients[1].sendall(b"\x16\x03\x01")
    clients[2].sendall(send("t", b"x", 1)[:9])
    shard.until(lambda stats: stats["connections"] == 4)
    shard.core.stop()
    del shard
    gc.collect()
    for client in clients:
        client.close()


@pytest.mark.parametrize("seed", seeds(2))
def test_handshakes_that_are_tampered_with_harm_nobody(
    shard: Shard, authority: Authority, seed: int
) -> None:
    """The hello, the end of the handshake and the requests behind it are changed, with both
    versions of TLS."""
    tampering = Tampering(seed, authority)
    for _ in range(volume(100, 1000)):
        tampering.connect(shard.core.port, send("t", b"x" * 50, 1))
    shard.until(lambda stats: stats["connections"] == 0)
    assert Hidden(shard, authority).socket.fileno() > 0
    assert shard.connect().ask(send("t", b"y", 1)).code == 0
