"""What the keys of TLS tickets are derived from (the secret that shards share, and which
certificates each shard shows and believes), and when contexts are made anew. Sessions that are
resumed with these keys: tests/process/test_tls.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.certificates import Authority
from support.driven_clock import DrivenClock

from cext.net.tls import TICKET_KEY_BYTES, TlsContext
from rmq.broker.certificates import ticket_keys
from rmq.broker.status.status_port import context_of
from rmq.config import load_properties
from rmq.errors import ConfigError
from rmq.serving.certificate_watch import TICKETS_S, CertificateWatch
from rmq.serving.tls import TlsFiles


def test_keys_follow_from_the_secret_and_from_who_is_believed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.pair("one"), authority.pair("other")
    trusted = str(authority.certificate)
    files = TlsFiles(str(one.certificate), str(one.key), "", trusted, "require", False, False)
    keys = ticket_keys(b"s" * 32, files)
    assert len(keys) == TICKET_KEY_BYTES
    assert keys == ticket_keys(b"s" * 32, replace(files, key=str(other.key), is_permissive=True))
    different = [
        ticket_keys(b"t" * 32, files),
        *(ticket_keys(b"s" * 32, replace(files, **changed)) for changed in (
            {"certificate": str(other.certificate)}, {"trusted": str(other.certificate)},
            {"trusted": ""}, {"asks": "optional"},
        )),
    ]  # fmt: skip
    assert len({keys, *different}) == 6
    with pytest.raises(ConfigError, match=r"none\.pem"):
        ticket_keys(b"s" * 32, replace(files, trusted=str(tmp_path / "none.pem")))


def test_a_context_takes_keys_of_one_length(tmp_path: Path) -> None:
    pair = Authority(tmp_path).pair("server")
    context = TlsContext(str(pair.certificate), str(pair.key), None, None, "none")
    context.set_ticket_keys(bytes(TICKET_KEY_BYTES))
    for length in (0, 48, 79, 81):
        with pytest.raises(ValueError, match=f"{length} bytes of ticket keys, not 80"):
            context.set_ticket_keys(bytes(length))


@pytest.mark.still_clock
@pytest.mark.parametrize("own", [False, True])
def test_the_same_files_are_read_anew_for_other_keys(
    own: bool, clock: DrivenClock, tmp_path: Path
) -> None:
    pair = Authority(tmp_path).pair("server")
    renewed = list[TlsFiles]()
    files = TlsFiles(str(pair.certificate), str(pair.key), "", "", "none", False, own)
    watch = CertificateWatch(files, renewed.append)
    watch.look()
    first = 0 if own else 1  # with keys of its own: nobody can have changed the files since
    assert len(renewed) == first
    for turn in range(3):
        clock.advance(TICKETS_S - 1.0)
        watch.look()
        assert len(renewed) == first + turn
        clock.advance(1.1)
        watch.look()
        assert len(renewed) == first + turn + 1


@pytest.mark.still_clock
def test_so_does_the_port_of_metrics(clock: DrivenClock, tmp_path: Path) -> None:
    """The port of metrics looks for new files when somebody connects; a damaged file changes
    nothing."""
    pair = Authority(tmp_path).pair("server")
    given = {"rmqMetricsTls": "true", "tls.server.certPath": str(pair.certificate),
             "tls.server.keyPath": str(pair.key)}  # fmt: skip
    current = context_of(load_properties(None, given))
    assert current is not None
    shown = current()
    clock.advance(TICKETS_S - 1.0)
    assert current() is shown
    clock.advance(1.1)
    renewed = current()
    assert renewed is not shown and current() is renewed
    text = pair.certificate.read_text()
    pair.certificate.write_text(text[:100])
    assert current() is renewed
    pair.certificate.write_text(text)
    assert current() is not renewed
