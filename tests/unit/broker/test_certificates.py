"""What the keys of TLS tickets follow from: the secret that shards share, and what each of them
shows and believes. tests/process/test_tls.py has sessions that go on by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.certificates import Authority

from cext.net.tls import TICKET_KEY_BYTES, TlsContext
from rmq.broker.certificates import ticket_keys
from rmq.errors import ConfigError
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
