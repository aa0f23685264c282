"""`rmq setup security`: a server starts with what it makes, and what it prints works.

Method: the commands as they are printed, with the ports of this broker. Cannot show: that the Java
and Go that is printed compiles (their clients are tested in tests/compat).
"""

from __future__ import annotations

import json
import shlex
import socket
import ssl
from pathlib import Path

import pytest
from support.broker_process import broker_process
from support.certificates import Authority
from support.command_line import rmq

from rmq import Message, Producer
from rmq.errors import RmqError

PRIVATE = {"authority.key", "server.key", "admin.json"}


def sections(text: str) -> dict[str, list[str]]:
    """title -> its indented lines."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("    ") and title:
            found.setdefault(title, []).append(line[4:])
        elif line.endswith(":"):
            title = line[:-1]
    return found


def test_a_server_starts_with_it_and_what_is_printed_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "secure"
    done = rmq("setup", "security", "--directory", str(folder), "--host", "127.0.0.1")
    assert done.returncode == 0, done.stderr
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert {name for name, mode in modes.items() if mode == 0o600} == PRIVATE
    assert folder.stat().st_mode & 0o777 == 0o700
    admin = json.loads((folder / "admin.json").read_text())
    assert admin["password"] not in done.stdout + done.stderr
    with broker_process(tmp_path, ["-c", str(folder / "security.conf")]) as broker:
        printed = sections(done.stdout.replace("127.0.0.1:9876", broker.namesrv))
        assert printed["Start a server"] == [f"rmq standalone -c {folder}/security.conf"]
        password = ""
        for line in printed["rmq"]:
            words = shlex.split(line)
            if words[0] == "export":
                for pair in words[1:]:
                    monkeypatch.setenv(*pair.split("=", 1))
                continue
            ran = rmq(*words[1:])
            assert ran.returncode == 0, ran.stderr
            password = password or ran.stdout.partition("password: ")[2].splitlines()[0]
        for name in ("NAMESRV_ADDR", "RMQ_TLS", "RMQ_TLS_CA", "RMQ_CREDENTIALS"):
            monkeypatch.delenv(name)
        text = "\n".join(printed["Python"])
        assert "\n    producer.send" in text
        exec(text.replace('".."', repr(password)), {})
        plain = {"namesrv_addr": broker.namesrv, "access_key": "alice", "secret_key": password}
        with Producer("p", **plain) as producer, pytest.raises(RmqError):
            producer.send(Message("orders", b"x"))
        trusted = {"use_tls": True, "tls_ca_file": str(folder / "authority.pem")}
        with (
            Producer("p", namesrv_addr=broker.namesrv, **trusted) as producer,
            pytest.raises(RmqError, match="username cannot be null"),
        ):
            producer.send(Message("orders", b"x"))
        assert password not in broker.log()


def test_nothing_is_overwritten_and_mistakes_are_told(tmp_path: Path) -> None:
    words = ("setup", "security", "--directory", str(tmp_path / "s"))
    assert rmq(*words).returncode == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()}
    again = rmq(*words)
    assert again.returncode == 2
    assert "server.key" in again.stderr and "--directory" in again.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()} == before
    for wrong in (("--host", "a b"), ("--admin", 'a"b'), ("--mode", "disabled")):
        done = rmq("setup", "security", "--directory", str(tmp_path / "t"), *wrong)
        assert done.returncode == 2
        assert wrong[0] in done.stderr
    assert not (tmp_path / "t").exists()
    (tmp_path / "file").write_text("")
    assert rmq("setup", "security", "--directory", str(tmp_path / "file" / "s")).returncode == 2


def test_a_real_authority_is_asked(tmp_path: Path) -> None:
    """As one would: what it signs goes where the settings look for it."""
    folder = tmp_path / "s"
    done = rmq("setup", "security", "--directory", str(folder), "--request", "--host", "127.0.0.1")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "admin.json", "security.conf", "server.csr", "server.key",
    ]  # fmt: skip
    authority = Authority(tmp_path)
    authority.sign(folder / "server.csr", folder / "server.pem")
    with broker_process(tmp_path, ["-c", str(folder / "security.conf")]) as broker:
        context = ssl.create_default_context(cafile=str(authority.certificate))
        host, _, port = broker.address.rpartition(":")
        with socket.create_connection((host, int(port)), 60) as plain:
            context.wrap_socket(plain, server_hostname=host).close()
