"""`rmq setup security`: a server starts with the files it makes, and the commands it prints work.

Method: the commands as they are printed, with the ports of this broker. Java and Go:
tests/compat/test_setup_security.py, Spark: tests/spark/test_setup_security.py.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from support.broker_process import broker_process
from support.certificates import Authority
from support.command_line import rmq
from support.secured_broker import secured_broker
from support.waiting import HANG_S

from rmq import Message, Producer, aio
from rmq.errors import RemoteError, RmqError

PRIVATE = {"authority.key", "server.key", "admin.json"}


def test_a_server_starts_with_it_and_what_is_printed_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with secured_broker(tmp_path) as secured:
        folder, namesrv = secured.folder, secured.broker.namesrv
        modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
        assert {name for name, mode in modes.items() if mode == 0o600} == PRIVATE | {"audit.log"}
        assert folder.stat().st_mode & 0o777 == 0o700
        assert "\n    producer.send" in secured.printed["Python"]
        exec(secured.printed["Python"], {})
        plain = {"namesrv_addr": namesrv, "access_key": "alice", "secret_key": secured.password}
        with Producer("p", **plain) as producer, pytest.raises(RmqError, match="use_tls=True"):
            producer.send(Message("orders", b"x"))
        trusted = {"use_tls": True, "tls_ca_file": str(secured.authority)}
        with (
            Producer("p", namesrv_addr=namesrv, **trusted) as producer,
            pytest.raises(RmqError, match=r"cannot be null.*give access_key and secret_key"),
        ):
            producer.send(Message("orders", b"x"))
        asyncio.run(wait_in_vain(plain | trusted))
        warnings = [each.message for each in caplog.records if each.levelno == logging.WARNING]
        (refused,) = [each for each in warnings if "rebalance of orders" in each]
        assert "Group:readers" in refused and "whoever is Super" in refused
        secured.run("rmq acl allow alice Group:readers --actions Sub")
        asyncio.run(send_and_consume(plain | trusted))


async def wait_in_vain(given: dict[str, Any]) -> None:
    """A group without permission gets no messages. The log says why, once."""
    async with aio.PullConsumer("readers", **given) as consumer:
        await consumer.subscribe("orders")
        assert await consumer.poll(100) == []


async def send_and_consume(given: dict[str, Any]) -> None:
    """Uses rmq.aio as alice, and then with a wrong password."""
    first = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}
    async with (
        aio.Producer("p", **given) as producer,
        aio.PullConsumer("readers", **first, **given) as consumer,
    ):
        await consumer.subscribe("orders")
        sent = {b"%d" % at for at in range(20)}
        for body in sent:
            await producer.send(Message("orders", body))
        found: set[bytes] = set()
        while not sent <= found:
            found |= {bytes(each.body) for each in await consumer.poll(9_000)}
        with pytest.raises(RemoteError, match=r"no matched policies.*whoever is Super"):
            await producer.send(Message("payroll", b"x"))
    async with aio.Producer("p", **(given | {"secret_key": "another"})) as producer:
        with pytest.raises(RemoteError, match=r"signature failed.*secret_key is not"):
            await producer.send(Message("orders", b"x"))


def test_servers_keep_an_audit_log_where_it_is_said(tmp_path: Path) -> None:
    with secured_broker(tmp_path, "--audit-log", str(tmp_path / "logs.txt")) as secured:
        assert not (secured.folder / "audit.log").exists()
        assert (tmp_path / "logs.txt").stat().st_mode & 0o777 == 0o600
        shown = secured.run("rmq audit --of admin")
        assert "CREATE_USER" in shown and "alice" in shown


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
    """With --request the command makes a request to an authority. The certificate that comes back
    is put where the settings look for it, and the server starts."""
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
        with socket.create_connection((host, int(port)), HANG_S) as plain:
            context.wrap_socket(plain, server_hostname=host).close()
