"""TLS as clients meet it: broker and name server serve plain and TLS clients on one port each.

Method: real processes, Python's ssl and rmq's client. Cannot show: other clients
(tests/compat/test_tls.py), kernels that encrypt.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import TypeVar

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.certificates import Authority, Pair, lay
from support.command_line import rmq
from support.driven_clock import process_clock
from support.sharded_broker import sharded_broker
from support.tls_client import SEND, Client, trusting
from support.waiting import HANG_S, wait_until
from support.wire_frames import frame

from rmq import Message, Producer, PullConsumer
from rmq.arrow.access import Access
from rmq.client.blocking import encryption
from rmq.client.blocking.connection import Connection
from rmq.errors import ConfigError, UnreachableError
from rmq.format.client_tls import ClientTls
from rmq.format.remoting import Command, encode
from rmq.format.signature import Credentials
from shards.messages import Done, Restart

MIB = 1 << 20
# Members are given twice, so that two readers of JSON may see different users and different acks.
ACKS_AS_ADMIN = frame(
    b'{"code":200151,"opaque":1,"flag":0,"extFields":{"AccessKey":"admin","\\u0061":""},'
    b'"extFields":null}',
    b'{"acks":[{"c":"billing","t":"bills","q":0,"rq":0,"so":0,"b":"AQ==","pt":1,"it":1,"r":"0"}],'
    b'"acks":[]}',
)
T = TypeVar("T")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.pair("server")


@pytest.fixture(scope="module")
def permissive(tmp_path_factory: pytest.TempPathFactory, server: Pair) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("permissive")
    with broker_process(folder, server.settings("permissive")) as broker:
        yield broker


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("where", ["broker", "name server"])
def test_both_kinds_of_clients_share_a_port(
    permissive: BrokerProcess, authority: Authority, version: ssl.TLSVersion, where: str
) -> None:
    address = permissive.address if where == "broker" else permissive.namesrv
    with Client(address, trusting(authority, version)) as hidden, Client(address) as plain:
        for client in (hidden, plain, hidden):
            assert client.ask(105, topic="TBW102").code in (0, 3)
        assert isinstance(hidden.socket, ssl.SSLSocket)
        assert hidden.socket.version() == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]


def served(
    address: str, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[bool, ssl.SSLSession]:
    """Whether the session was resumed, and the session to resume next. (In TLS 1.3 the server sends
    it with data.)"""
    with Client(address, context, session) as client:
        assert client.ask(105, topic="TBW102").code in (0, 3, 17)
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.session is not None
        return bool(client.socket.session_reused), client.socket.session


def until_read_again(broker: BrokerProcess) -> None:
    """Waits until name server and shard have read their certificates again, a second after their
    start. Sessions from before that cannot be resumed."""
    wait_until(lambda: broker.log().count("certificates were read") >= 2)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("where", ["broker", "name server"])
def test_a_session_goes_on(
    permissive: BrokerProcess, authority: Authority, version: ssl.TLSVersion, where: str
) -> None:
    """A client that shows an earlier session needs no full handshake, however often it comes."""
    until_read_again(permissive)
    address = permissive.address if where == "broker" else permissive.namesrv
    context = trusting(authority, version)
    reused, session = served(address, context)
    assert not reused
    for _ in range(3):
        reused, session = served(address, context, session)
        assert reused, "a full handshake once more"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_goes_on_where_certificates_are_asked_for(
    tmp_path: Path, authority: Authority, server: Pair, version: ssl.TLSVersion
) -> None:
    """Sessions are resumed also if servers ask clients for certificates. OpenSSL refuses that
    unless the server has given its sessions a context."""
    ask = {"need.client.auth": "require", "trustCertPath": authority.certificate}
    known = authority.pair("client")
    with broker_process(tmp_path / "b", server.settings("permissive", **ask)) as broker:
        until_read_again(broker)
        for address in (broker.address, broker.namesrv):
            context = trusting(authority, version)
            context.load_cert_chain(known.certificate, known.key)
            _, session = served(address, context)
            assert served(address, context, session)[0]


def test_a_session_goes_on_at_another_shard(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session is resumed at another shard, and at a shard that was started again, until the
    shards have another secret or another certificate. If no supervisor is left to give them a new
    secret, the old one serves until it is a day old."""
    used, second = authority.pair("used-by-all"), authority.pair("second-of-all")
    versions = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    contexts = [trusting(authority, version) for version in versions]
    with process_clock(tmp_path) as clock:
        for name in ("RMQ_TEST_CLOCK", "RMQ_TESTING"):
            monkeypatch.setenv(name, clock.environment[name])
        with sharded_broker(tmp_path, 2, used.settings("permissive")) as broker:
            addresses = [f"127.0.0.1:{port}" for port in broker.ports]

            def sessions_of(shard: int) -> list[ssl.SSLSession]:
                return [served(addresses[shard], context)[1] for context in contexts]

            def until_they(go_on: bool, at: int, sessions: list[ssl.SSLSession]) -> None:
                asked = list(zip(contexts, sessions, strict=True))
                wait_until(lambda: all(served(addresses[at], *each)[0] is go_on for each in asked))

            def until_shared() -> None:
                wait_until(
                    lambda: all(
                        served(addresses[1 - first], context, session)[0]
                        for first in (0, 1)
                        for context, session in zip(contexts, sessions_of(first), strict=True)
                    )
                )

            until_shared()
            sessions = sessions_of(0)
            broker.ask(Restart(1), Done)
            addresses[1] = f"127.0.0.1:{broker.until_serving(1).address.rpartition(':')[2]}"
            until_they(True, 1, sessions)
            clock.advance(13 * 3600)
            for shard in (0, 1):
                until_they(False, shard, sessions)
            until_shared()
            sessions = sessions_of(1)
            lay(second, used)
            for shard in (0, 1):
                until_they(False, shard, sessions)
            until_shared()
            broker.process.kill()
            broker.process.wait(HANG_S)
            sessions = sessions_of(0)
            clock.advance(11 * 3600)
            until_they(True, 1, sessions)
            clock.advance(14 * 3600)
            for shard in (0, 1):
                until_they(False, shard, sessions)


@pytest.mark.parametrize("named", [True, False], ids=["named", "own"])
def test_keys_of_tickets_last_half_a_day(
    tmp_path: Path, authority: Authority, server: Pair, named: bool
) -> None:
    """A broker of one shard and its name server replace the keys of tickets after half a day, even
    if the certificate stays, and also if they have made the certificate themselves."""
    versions = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    contexts = [trusting(authority, version) for version in versions]
    if not named:
        for context in contexts:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    options = server.settings("permissive") if named else []
    with (
        process_clock(tmp_path) as clock,
        broker_process(tmp_path / "b", options, environment=clock.environment) as broker,
    ):
        if named:
            until_read_again(broker)
        asked = list(product((broker.address, broker.namesrv), contexts))

        def going_on(sessions: list[ssl.SSLSession]) -> list[bool]:
            pairs = zip(asked, sessions, strict=True)
            return [served(*where, session)[0] for where, session in pairs]

        sessions = [served(*where)[1] for where in asked]
        clock.advance(11 * 3600)
        assert all(going_on(sessions))
        clock.advance(2 * 3600)
        wait_until(lambda: not any(going_on(sessions)))
        assert all(going_on([served(*where)[1] for where in asked]))


def test_a_session_of_a_certificate_that_was_renewed_begins_anew(
    tmp_path: Path, authority: Authority
) -> None:
    used, second = authority.pair("used"), authority.pair("second")
    with broker_process(tmp_path / "b", used.settings("permissive")) as broker:
        until_read_again(broker)
        kept = []
        for address in (broker.address, broker.namesrv):
            context = trusting(authority)
            _, session = served(address, context)
            assert served(address, context, session)[0]
            kept.append((address, context, session))
        lay(second, used)
        for each in kept:
            wait_until(lambda each=each: not served(*each)[0])


def test_large_bodies_and_many_requests_at_once(
    permissive: BrokerProcess, authority: Authority
) -> None:
    """TLS records end within frames, frames end within records, and more comes than a socket takes
    at once."""
    body = bytes(range(256)) * (3 * MIB // 256)
    with Client(permissive.address, trusting(authority)) as client:
        count = 40
        small = [Command(code=310, fields=SEND, body=b"x" * n, opaque=n) for n in range(1, 300)]
        client.put(*small)
        assert sorted(client.reply().opaque for _ in small) == list(range(1, 300))
        assert client.ask(310, body, **{**SEND, "b": "large"}).code == 0
        pull = {"consumerGroup": "TOOLS_CONSUMER", "topic": "large", "queueId": "0",
                "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "4", "commitOffset": "0",
                "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
                "expressionType": "TAG"}  # fmt: skip
        client.put(*(Command(code=11, fields=pull, opaque=n) for n in range(count)))
        for _ in range(count):
            reply = client.reply()
            assert reply.code == 0
            assert body in reply.body


def test_our_client_sends_and_consumes(permissive: BrokerProcess, authority: Authority) -> None:
    given = {"namesrv_addr": permissive.namesrv, "use_tls": True,
             "tls_ca_file": str(authority.certificate)}  # fmt: skip
    with Producer("p", **given) as producer:
        producer.send(Message("ours", b"one"))
    found: list[bytes] = []
    first = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}
    with PullConsumer("g", **first, **given) as consumer:
        consumer.subscribe("ours")
        wait_until(lambda: found.extend(bytes(m.body) for m in consumer.poll(500)) or found)
    assert found == [b"one"]


def test_where_tls_is_enforced_nobody_else_is_served(
    tmp_path: Path, authority: Authority, server: Pair
) -> None:
    """Plain clients are refused. The broker, too, speaks TLS with its name server."""
    with broker_process(tmp_path, server.settings("enforcing")) as broker:
        for address in (broker.address, broker.namesrv):
            with Client(address, trusting(authority)) as client:
                assert client.ask(105, topic="SELF_TEST_TOPIC").code in (0, 3)
            with Client(address) as client, pytest.raises((EOFError, ConnectionError)):
                client.ask(105, topic="SELF_TEST_TOPIC")
        with (
            Producer("p", namesrv_addr=broker.namesrv) as producer,
            pytest.raises(UnreachableError, match="if it speaks TLS alone, ask by use_tls=True"),
        ):
            producer.send(Message("t", b"x"))
        with Client(broker.namesrv, trusting(authority)) as client:
            wait_until(lambda: client.ask(105, topic="SELF_TEST_TOPIC").code == 0)


@pytest.mark.parametrize("mode", ["", "enforcing"])
def test_without_files_a_server_shows_a_certificate_of_its_own(tmp_path: Path, mode: str) -> None:
    """Like RocketMQ's servers, one without certificate files makes its own certificate. No client
    can check it, and clients that try refuse it."""
    careless = ssl._create_unverified_context()
    options = ["--set", f"tls.server.mode={mode}"] if mode else []
    with broker_process(tmp_path, options) as broker:
        for address in (broker.address, broker.namesrv):
            with Client(address, careless) as client:
                assert client.ask(105, topic="TBW102").code in (0, 3)
            with pytest.raises(ssl.SSLCertVerificationError):
                Client(address, ssl.create_default_context())
        with Client(broker.address) as client:
            if mode == "enforcing":
                with pytest.raises((EOFError, ConnectionError)):
                    client.ask(310, b"x", **SEND)
            else:
                assert client.ask(310, b"x", **SEND).code == 0


def test_a_file_of_properties_says_what_is_shown(tmp_path: Path, authority: Authority) -> None:
    """RocketMQ's tls.properties decides all settings of TLS except the mode."""
    pair, path = authority.pair("of-a-file"), tmp_path / "tls.properties"
    path.write_text(
        "tls.test.mode.enable=false\ntls.server.mode=disabled\n"
        f"tls.server.certPath={pair.certificate}\ntls.server.keyPath={pair.key}\n"
    )
    options = ["--set", f"tls.config.file={path}", "--set", "tls.server.mode=enforcing"]
    with broker_process(tmp_path / "b", options) as broker:
        for address in (broker.address, broker.namesrv):
            with Client(address, trusting(authority)) as client:
                assert client.ask(105, topic="TBW102").code in (0, 3)
                assert isinstance(client.socket, ssl.SSLSocket)
                assert "of-a-file" in str(client.socket.getpeercert())
            with Client(address) as client, pytest.raises((EOFError, ConnectionError)):
                client.ask(105, topic="TBW102")


@pytest.mark.parametrize("option", ["tls.server.mode=disabled", "tls.test.mode.enable=false"])
def test_who_wants_no_tls_gets_none(tmp_path: Path, option: str) -> None:
    with broker_process(tmp_path, ["--set", option]) as broker:
        for address in (broker.address, broker.namesrv):
            with pytest.raises((ssl.SSLError, EOFError, ConnectionError)):
                Client(address, ssl._create_unverified_context())
            with Client(address) as client:
                assert client.ask(105, topic="TBW102").code in (0, 3)


def test_who_speaks_no_tls_at_all_is_closed(permissive: BrokerProcess) -> None:
    for bytes_sent in (
        b"\x16\x03\x01\x00\x05hello",
        b"\x16" * 300,
        b"\x16\x03\x03\xff\xff" + b"x" * 70000,
    ):
        for address in (permissive.address, permissive.namesrv):
            with Client(address) as client:
                client.socket.sendall(bytes_sent)
                with pytest.raises((EOFError, ConnectionError)):
                    while client.socket.recv(4096):
                        pass
                    raise EOFError
    with Client(permissive.address) as client:
        assert client.ask(310, b"x", **SEND).code == 0


@pytest.mark.parametrize("where", ["broker", "name server"])
def test_older_versions_are_refused(permissive: BrokerProcess, where: str) -> None:
    """The client offers only older versions, so it is the server that refuses."""
    address = permissive.address if where == "broker" else permissive.namesrv
    old = ssl._create_unverified_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        Client(address, old)


@pytest.mark.parametrize("where", ["broker", "name server"])
def test_no_handshake_is_made_within_a_connection(permissive: BrokerProcess, where: str) -> None:
    """TLS 1.2 lets a client ask for another handshake within its connection, which no limit of
    handshakes would count. The servers refuse. OpenSSL's client asks when it reads R."""
    address = permissive.address if where == "broker" else permissive.namesrv
    done = subprocess.run(
        ["openssl", "s_client", "-tls1_2", "-connect", address], input="R\n",
        capture_output=True, text=True, timeout=HANG_S,
    )  # fmt: skip
    assert "RENEGOTIATING" in done.stdout + done.stderr
    assert "no renegotiation" in done.stdout + done.stderr


@pytest.mark.parametrize("where", ["broker", "name server"])
def test_a_handshake_may_come_byte_by_byte(
    permissive: BrokerProcess, authority: Authority, where: str
) -> None:
    """Each byte of the handshake and of the first request is a packet of its own, as through a slow
    tunnel."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer = trusting(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
    address = permissive.address if where == "broker" else permissive.namesrv
    with Client(address) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def through(step: Callable[[], T]) -> T:
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    flush()
                    piece = client.socket.recv(65536)
                    assert piece, "the server has hung up"
                    incoming.write(piece)

        def flush() -> None:
            for byte in outgoing.read():
                client.socket.send(bytes([byte]))

        through(peer.do_handshake)
        peer.write(encode(Command(code=105, fields={"topic": "SELF_TEST_TOPIC"})))
        flush()
        while (reply := client.frames.next()) is None:
            client.frames.feed(through(lambda: peer.read(65536)))
        assert reply.code in (0, 3, 17)


def test_half_a_handshake_harms_nobody(permissive: BrokerProcess, authority: Authority) -> None:
    silent = [Client(permissive.address) for _ in range(50)]
    for number, client in enumerate(silent):
        client.socket.sendall(b"\x16\x03\x01\x02\x00\x01"[: number % 7])
    with Client(permissive.address, trusting(authority)) as client:
        assert client.ask(310, b"x", **SEND).code == 0
    for client in silent:
        client.socket.close()


def test_clients_show_certificates_where_they_must(
    tmp_path: Path, authority: Authority, server: Pair
) -> None:
    ask = {"need.client.auth": "require", "trustCertPath": authority.certificate}
    known, other = authority.pair("client"), Authority(tmp_path, "other")
    with broker_process(tmp_path / "b", server.settings("permissive", **ask)) as broker:
        for address in (broker.address, broker.namesrv):
            context = trusting(authority)
            context.load_cert_chain(known.certificate, known.key)
            with Client(address, context) as client:
                assert client.ask(105, topic="TBW102").code in (0, 3)
            stranger = trusting(authority)
            wrong = other.pair("stranger")
            stranger.load_cert_chain(wrong.certificate, wrong.key)
            for refused in (trusting(authority), stranger):
                with (
                    pytest.raises((ssl.SSLError, EOFError, ConnectionError)),
                    Client(address, refused) as client,
                ):
                    client.ask(105, topic="TBW102")
        trusted = {"namesrv_addr": broker.namesrv, "use_tls": True,
                   "tls_ca_file": str(authority.certificate)}  # fmt: skip
        shown = {"tls_cert_file": str(known.certificate), "tls_key_file": str(known.key)}
        with Producer("p", **trusted, **shown) as producer:
            producer.send(Message("t", b"x"))
        with (
            Producer("p", **trusted) as producer,
            pytest.raises(UnreachableError, match=r"certificate.* by tls_cert_file"),
        ):
            producer.send(Message("t", b"x"))
        words = ("topic", "list", "-n", broker.namesrv, "--tls-ca", str(authority.certificate))
        done = rmq(*words, "--tls-cert", str(known.certificate), "--tls-key", str(known.key))
        assert done.returncode == 0, done.stderr
        done = rmq(*words)
        assert done.returncode == 3
        assert "--tls-cert FILE" in done.stderr
        for kind, files, text in (
            (UnreachableError, (), "asks for a certificate"),
            (UnreachableError, (wrong.certificate, wrong.key), "not accept the certificate"),
            (ConfigError, (known.certificate, wrong.key), "key values mismatch"),
            (ConfigError, (tmp_path / "none.pem", known.key), "--tls-cert .*none.pem"),
        ):
            names = (encryption.CERTIFICATE, encryption.KEY)
            named = {name: str(file) for name, file in zip(names, files, strict=False)}
            encryption.use(RMQ_TLS="1", RMQ_TLS_CA=str(authority.certificate), **named)
            try:
                with pytest.raises(kind, match=text), Connection(broker.address) as to:
                    to.ask(105, {"topic": "t"})
            finally:
                encryption.forget()
        access = Access(broker.namesrv, tls=ClientTls(str(authority.certificate), **{
            "cert_file": str(known.certificate), "key_file": str(known.key)}))  # fmt: skip
        with access.cluster() as cluster:
            assert cluster.route("t")


ADMIN = Credentials("admin", "top secret")


def signed(client: Client, code: int, body: bytes = b"", **fields: str) -> Command:
    return client.ask(code, body, **ADMIN.sign(fields, body))


def make_certified_alice(broker: BrokerProcess) -> dict[str, str]:
    """Makes the user alice, who may Pub and Get on topic orders. Returns the topic's fields."""
    made = {"topic": "orders", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    policy = (b'{"policies":[{"policyType":"Custom","entries":[{"resource":"Topic:orders",'
              b'"actions":["Pub","Get"],"decision":"Allow"}]}]}')  # fmt: skip
    with Client(broker.address) as client:
        text = b'{"username":"alice","password":"never used"}'
        assert signed(client, 3001, text, username="alice").code == 0
        assert signed(client, 17, **made).code == 0
        assert signed(client, 3006, policy, subject="User:alice").code == 0
    return made


def test_a_certificate_is_a_user(tmp_path: Path, authority: Authority, server: Pair) -> None:
    """A request without a signature comes from the user whom the client's certificate names: for
    the reactor, the control side and the name server."""
    ask = {"need.client.auth": "optional", "trustCertPath": authority.certificate}
    options = (
        *server.settings("permissive", **ask), "--set", "rmqTlsUser=commonName",
        "--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true",
        "--set", 'initAuthenticationUser={"username":"admin","password":"top secret"}',
    )  # fmt: skip
    alice, bob = authority.pair("alice"), authority.pair("bob")
    both = authority.pair("both", subject="/CN=alice/CN=admin")
    ended = authority.pair("ended", subject="/CN=admin\tx")

    def showing(pair: Pair) -> ssl.SSLContext:
        context = trusting(authority)
        context.load_cert_chain(pair.certificate, pair.key)
        return context

    with broker_process(tmp_path, options) as broker:
        made = make_certified_alice(broker)
        send = {**SEND, "b": "orders"}
        with Client(broker.address, showing(alice)) as client:
            assert client.ask(310, b"x", **send).code == 0
            assert client.ask(351, topic="orders").code == 0
            for code, fields in ((310, {**SEND, "b": "bills"}), (351, {"topic": "bills"})):
                reply = client.ask(code, b"x", **fields)
                assert reply.code == 16
                assert (reply.remark or "").startswith("User:alice has no permission")
            assert signed(client, 17, **{**made, "topic": "bills"}).code == 0, "who signs counts"
            wrong = Credentials("admin", "wrong").sign(dict(send), b"x")
            assert client.ask(310, b"x", **wrong).remark == "check signature failed."
            client.socket.sendall(ACKS_AS_ADMIN)
            reply = client.reply()
            assert (reply.code, (reply.remark or "").partition(" has")[0]) == (16, "User:alice")
        for context, text_of_refusal in (
            (showing(bob), "User:bob is not found."),
            (showing(both), "username cannot be null."),
            (showing(ended), "username cannot be null."),
            (trusting(authority), "username cannot be null."),
            (None, "username cannot be null."),
        ):
            for blank in (" ", "   "):  # blanks are no name
                with Client(broker.address, context) as client:
                    told = client.ask(310, b"x", **send, AccessKey=blank).remark
                    assert told == text_of_refusal
            with Client(broker.address, context) as client:
                for code in (310, 351):
                    assert client.ask(code, b"", **send, topic="orders").remark == text_of_refusal
            with Client(broker.namesrv, context) as client:
                assert client.ask(105, topic="orders").remark == text_of_refusal
        with Client(broker.namesrv, showing(alice)) as client:
            wait_until(lambda: client.ask(105, topic="orders").code == 0)
            assert client.ask(100, namespace="n", key="k", value="v").code == 16
        shown = {"tls_cert_file": str(alice.certificate), "tls_key_file": str(alice.key)}
        with Producer(
            "p", namesrv_addr=broker.namesrv, use_tls=True,
            tls_ca_file=str(authority.certificate), **shown,
        ) as producer:  # fmt: skip
            producer.send(Message("orders", b"x"))
        with Client(broker.address, showing(alice)) as client:
            off = b'{"username":"alice","userStatus":"disable"}'
            assert signed(client, 3002, off, username="alice").code == 0
            for code in (310, 351):
                reply = client.ask(code, b"x", **send, topic="orders")
                assert reply.remark == "User:alice is disabled."


def test_a_certificate_is_a_user_only_where_one_is_asked_for(tmp_path: Path) -> None:
    words = ("broker", "--store", str(tmp_path / "store"), "--port", "0",
             "--set", "rmqTlsUser=commonName")  # fmt: skip
    done = rmq(*words)
    assert (done.returncode, "authenticationEnabled=true" in done.stderr) == (2, True)
    done = rmq(*words, "--set", "authenticationEnabled=true",
               "--set", 'initAuthenticationUser={"username":"a","password":"b"}')  # fmt: skip
    assert (done.returncode, "tls.server.need.client.auth=require" in done.stderr) == (2, True)


def test_what_cannot_be_used_ends_the_start_with_the_reason(
    tmp_path: Path, authority: Authority, server: Pair
) -> None:
    other = authority.pair("other")
    locked = authority.pair("locked", password="geheim")
    for pair, more, text in (
        (Pair(server.certificate, other.key), {}, "key"),
        (Pair(tmp_path / "none.pem", server.key), {}, "none.pem"),
        (locked, {"keyPassword": "wrong"}, "locked.key"),
    ):
        words = pair.settings("enforcing", **more)
        done = rmq("broker", "--store", str(tmp_path / "store"), "--port", "0", *words)
        assert done.returncode == 2, done.stderr
        assert text in done.stderr
        assert "geheim" not in done.stderr
    with broker_process(
        tmp_path / "b", locked.settings("enforcing", keyPassword="geheim")
    ) as broker:
        with Client(broker.address, trusting(authority)) as client:
            assert client.ask(310, b"x", **SEND).code == 0
        assert "geheim" not in broker.log()


def test_the_command_line_speaks_it(
    permissive: BrokerProcess, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("topic", "list", "-n", permissive.namesrv)
    monkeypatch.setenv("RMQ_TLS", "1")
    done = rmq(*words)
    assert done.returncode == 3
    assert "is not trusted" in done.stderr
    assert "--tls-ca FILE" in done.stderr
    trusting = ("--tls-ca", str(authority.certificate))
    assert rmq(*words, *trusting).returncode == 0
    sending = ("send", "by-command", "hello", "-n", permissive.namesrv)
    assert rmq(*sending).returncode != 0, "it does not send in the clear instead"
    assert rmq(*sending, *trusting).returncode == 0
    monkeypatch.setenv("RMQ_TLS_VERIFY", "0")
    assert rmq(*words).returncode == 0
    monkeypatch.delenv("RMQ_TLS")
    assert rmq(*words, "--tls").returncode == 0
