"""The broker recognises hellos that ask to resume a session of TLS 1.2."""

from __future__ import annotations

import contextlib
import random
import ssl
from collections.abc import Callable

import pytest
from support.certificates import Authority
from support.volume import seeds, volume

from cext.testing.net_probe import resumes

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
# Where the length of the session's id is, behind record, message and random bytes.
ID_AT = 5 + 4 + 34

Hello = Callable[..., bytes]


@pytest.fixture(scope="module")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Hello:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    pair = authority.pair("server")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pair.certificate, pair.key)

    def said(version: ssl.TLSVersion, again: bool, tickets: bool = True) -> bytes:
        """The hello of a client whose highest version is this one, at its first connect or a later
        one."""
        client = ssl.create_default_context(cafile=str(authority.certificate))
        client.maximum_version = version
        if not tickets:
            client.options |= ssl.OP_NO_TICKET
        session = None
        for _ in range(1 + again):
            inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = client.wrap_bio(inward, outward, server_hostname="localhost", session=session)
            with pytest.raises(ssl.SSLWantReadError):
                tls.do_handshake()
            first = outward.read()
            server = serving.wrap_bio(answered := ssl.MemoryBIO(), inward, server_side=True)
            answered.write(first)
            for each in (server, tls, server, tls):
                with contextlib.suppress(ssl.SSLWantReadError):
                    each.do_handshake()
                answered.write(outward.read())
            server.write(b"x")  # comes behind the ticket of TLS 1.3
            assert tls.read(1) == b"x"
            session = tls.session
        return first

    return said


@pytest.mark.parametrize("tickets", [True, False])
def test_a_session_of_tls_1_2_resumes_by_ticket_or_number(hello: Hello, tickets: bool) -> None:
    said = hello(TLS_1_2, True, tickets)
    assert resumes(said)
    assert resumes(said + b"what is behind it")
    assert not resumes(hello(TLS_1_2, False, tickets))


@pytest.mark.parametrize("again", [True, False])
def test_tls_1_3_exchanges_keys_even_when_it_resumes(hello: Hello, again: bool) -> None:
    said = hello(TLS_1_3, again)
    assert said[ID_AT] == 32, "an id of no session, which proxies on the way expect"
    assert not resumes(said)


def test_an_incomplete_hello_resumes_nothing(hello: Hello) -> None:
    said = hello(TLS_1_2, True)
    assert [length for length in range(len(said) + 1) if resumes(said[:length])] == [len(said)]


def test_a_hello_without_extensions_resumes_by_id() -> None:
    body = b"\x03\x03" + bytes(32) + b"\x04abcd" + b"\x00\x02\xc0\x2f" + b"\x01\x00"
    whole = b"\x16\x03\x01" + (len(body) + 4).to_bytes(2, "big") + b"\x01"
    whole += len(body).to_bytes(3, "big") + body
    assert resumes(whole)
    assert not resumes(whole.replace(b"\x04abcd", b"\x05abcd"))


@pytest.mark.parametrize("seed", seeds(2))
def test_nothing_is_read_beyond_what_was_received(hello: Hello, seed: int) -> None:
    """Behind the bytes lies a page without access: to read one byte of it ends the process."""
    chance, said = random.Random(seed), hello(TLS_1_2, True)
    resumed = 0
    for _ in range(volume(2_000, 100_000)):
        changed = bytearray(said[: chance.choice((len(said), chance.randrange(1, len(said))))])
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7F, 0xFF))
        resumed += resumes(bytes(changed))
    assert resumed > 0
