"""Secrets of a broker's settings and users are in files that only their owner may read, and nowhere
else; and in no core file of any of its processes.

Method: supervisor, name server and two shards with a secret of each kind in a file of settings, an
umask that takes no permission away, and logs of everything; wrong requests that carry secrets. Then
all their files, command lines and answers are searched. Cannot show: secrets in memory.
"""

from __future__ import annotations

import os
import resource
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import tree_process
from support.accounts import account
from support.broker_process import BrokerProcess, broker_process
from support.certificates import Authority
from support.console_process import console_process
from support.sharded_broker import is_shard
from support.stopping import signal_process
from support.waiting import wait_until

from rmq.client.blocking.connection import Connection
from rmq.format.signature import Credentials

ADMIN = Credentials("admin", "geheim-of-admin")
SECRETS = ("geheim", "VERBORGEN")  # each secret contains one of these words
CORE_KIB = 1024  # enough to see that there is a core file


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[BrokerProcess]:
    """A broker of two shards that works in `folder`: a core file would be there."""
    pair = Authority(folder).pair("server", password="geheim-of-key")
    config = folder / "broker.conf"
    config.write_text(
        'initAuthenticationUser={"username":"admin","password":"geheim-of-admin"}\n'
        'innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"geheim-of-inner"}\n'
        'rmqMetricsCredentials={"username":"prom","password":"geheim-of-metrics"}\n'
        "authenticationEnabled=true\nauthorizationEnabled=true\n"
        f"tls.server.certPath={pair.certificate}\ntls.server.keyPath={pair.key}\n"
        "tls.server.keyPassword=geheim-of-key\n"
        "metricsExporterType=PROM\nmetricsPromExporterPort=0\n"
        f"rmqAuditLog={folder / 'audit.log'}\n"
        "mappedFileSizeCommitLog=4194304\nmaxMessageSize=1048576\n"
    )
    config.chmod(0o600)
    begin = f"cd {shlex.quote(str(folder))} && umask 000 && ulimit -c {2 * CORE_KIB}"
    before = ["/bin/sh", "-c", f'{begin} && exec "$0" "$@"']
    words = ["-c", str(config), "--shards", "2", "--set", "rmqLogLevel=DEBUG", *options]
    environment = tree_process.environment()
    with broker_process(folder, words, environment, before) as broker, account(ADMIN):
        shards = shards_of(broker)
        try:
            yield broker
        finally:
            for pid in filter(is_shard, shards_of(broker) | shards):
                is_up = broker.process.poll() is None
                signal_process(pid, signal.SIGTERM if is_up else signal.SIGKILL)


def shards_of(broker: BrokerProcess) -> set[int]:
    store = os.fsencode(broker.store)
    numbers = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]
    return {pid for pid in numbers if is_shard(pid) and store in command_line(pid)}


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def has_secret(content: bytes) -> bool:
    return any(secret.encode() in content for secret in SECRETS)


WRONG = [
    (3001, {"username": "eve"}, b'{"username":"eve","password":"VERBORGEN"'),
    (3001, {"username": "eve"}, b'{"username":"eve","password":["VERBORGEN"]}'),
    (3001, {"username": "eve"}, b'{"username":"eve","password":"%s"}' % (b"VERBORGEN" * 99)),
    (3001, {"username": "eve"}, b'{"username":"eve","password":"VERBORGEN","userType":"none"}'),
    (3002, {"username": "nobody"}, b'{"username":"nobody","password":"VERBORGEN"}'),
    (25, {}, b"tls.server.keyPassword=VERBORGEN\n"),
    (25, {}, b'initAuthenticationUser={"username":"admin","password":"VERBORGEN"}\n'),
    (318, {}, b'innerClientAuthenticationCredentials={"accessKey":"a","secretKey":"VERBORGEN"}\n'),
    (318, {}, b"rmqMetricsCredentials=VERBORGEN\n"),
]


def test_secrets_are_in_files_of_their_owner_alone(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        user = b'{"username":"alice","password":"geheim-of-alice"}'
        with Connection(broker.address) as connection:
            assert connection.ask(3001, {"username": "alice"}, user).code == 0
        answers = []
        for address in (broker.address, broker.namesrv):
            with Connection(address) as connection:
                for code, fields, body in WRONG:
                    reply = connection.ask(code, fields, body)
                    assert reply.code != 0, (code, body)
                    answers.append(reply)
                answers += [connection.ask(code) for code in (26, 28, 319)]
        assert not [each for each in answers if has_secret(f"{each!r}".encode())]
        assert b"brokerName" in b"".join(each.body for each in answers), "settings were told"
        shards = shards_of(broker)
        assert len(shards) == 2
        for pid in (broker.pid, *shards):
            assert not has_secret(command_line(pid)), pid
        found = {path for path in tmp_path.rglob("*") if path.is_file()}
        assert broker.log_path in found and tmp_path / "audit.log" in found
        secret = {path for path in found if has_secret(path.read_bytes())}
        assert {path.name for path in secret} == {
            "broker.conf", "rmqAccounts.json", "rmqAccounts.json.bak", "shard-0.json",
            "shard-1.json",
        }  # fmt: skip
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in secret}
        assert set(modes.values()) == {"0o600"}, modes
        open_to_all = [path for path in (broker.store, *broker.store.iterdir())
                       if path.is_dir() and path.stat().st_mode & 0o007]  # fmt: skip
        assert open_to_all == []


leaves_core_files_here = pytest.mark.skipif(
    not Path("/proc/sys/kernel/core_pattern").read_text().startswith("core")
    or 0 <= resource.getrlimit(resource.RLIMIT_CORE)[1] < CORE_KIB << 10,
    reason="this machine leaves core files elsewhere, or none",
)


@leaves_core_files_here
@pytest.mark.parametrize("leaves", [False, True])
def test_no_process_that_has_secrets_leaves_a_core_file(tmp_path: Path, leaves: bool) -> None:
    """Supervisor and shards, each ended by SIGABRT, leave core files only if rmqCoreFiles asks for
    them."""
    with serving(tmp_path, *(["--set", "rmqCoreFiles=true"] if leaves else [])) as broker:
        for pid in (*shards_of(broker), broker.pid):
            os.kill(pid, signal.SIGABRT)
            if pid == broker.pid:
                assert broker.process.wait() == -signal.SIGABRT
            else:
                wait_until(lambda pid=pid: not is_shard(pid))
            cores = [path for path in tmp_path.rglob("core*") if path.is_file()]
            assert bool(cores) == leaves, pid
            for path in cores:
                path.unlink()


@leaves_core_files_here
def test_nor_does_the_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The console leaves no core file either, because users give it their passwords."""
    monkeypatch.setenv("PYTHONPATH", tree_process.environment()["PYTHONPATH"])
    monkeypatch.chdir(tmp_path)
    with console_process(tmp_path, "127.0.0.1:1") as console:
        limits = (CORE_KIB << 10, resource.getrlimit(resource.RLIMIT_CORE)[1])
        resource.prlimit(console.process.pid, resource.RLIMIT_CORE, limits)
        console.process.send_signal(signal.SIGABRT)
        assert console.process.wait() == -signal.SIGABRT
    assert list(tmp_path.glob("core*")) == []
