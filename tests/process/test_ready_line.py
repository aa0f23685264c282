"""Goal: all that a line with "is ready" names can be used then; what is missing is named, too, or
the process ends and says why.

Method: real processes; shards that cannot start because their topics.json is damaged; name servers
that are not there yet. Cannot prove: name servers that take packets and never answer.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import command_line
from support.accounts import ADMIN, ARMED
from support.broker_process import broker_process
from support.certificates import Authority, Pair
from support.sharded_broker import ShardedBroker, sharded_broker
from support.waiting import HANG_S, wait_until

from rmq.auth.options import INNER
from rmq.config import load_properties
from rmq.demo.ports import free_port
from rmq.node.advised_options import AUTHORITY, advised_options

FEW = ["--set", "rmqShardFailuresMax=2"]


def damage(store: Path) -> None:
    wait_until(lambda: list((store / "config").glob("topics.json")))
    for path in (store / "config").glob("topics.json*"):
        path.write_text("{ damaged")


@pytest.fixture
def two_shards(tmp_path: Path) -> ShardedBroker:
    """Two shards that have run once, and are stopped."""
    with sharded_broker(tmp_path, 2, FEW) as broker:
        assert broker.stop() == 0
    return broker


def test_shards_that_are_all_given_up_end_the_start_with_the_cause(
    two_shards: ShardedBroker,
) -> None:
    for store in (two_shards.store, two_shards.store / "shard-1"):
        damage(store)
    done = subprocess.run(two_shards.command(2), capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode not in (0, -signal.SIGKILL)
    assert "is ready" not in done.stdout
    last = done.stderr.splitlines()[-1]
    assert last.startswith("rmq: no shard of broker-a is left: broker-a: given up after 2 failed")
    assert "broker-a-1: given up" in last and "topics.json" in last
    assert "Traceback" not in done.stderr


def test_a_shard_that_is_given_up_is_said_in_the_ready_line(two_shards: ShardedBroker) -> None:
    damage(two_shards.store / "shard-1")
    process = subprocess.Popen(
        two_shards.command(2), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(HANG_S) == 0
    process.stdout.close()
    assert re.search(r"is ready in [\d.]+ s with 1 of 2 shards \(broker-a-1: given up after", line)
    assert "topics.json" in line
    assert re.search(r"broker broker-a at \S+, store ", line), "and no address of the other"


def test_shards_that_are_all_given_up_later_end_the_process_too(tmp_path: Path) -> None:
    with sharded_broker(tmp_path, 2, FEW) as broker:
        pids = broker.pids
        for store in (broker.store, broker.store / "shard-1"):
            damage(store)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert broker.process.wait(HANG_S) not in (0, -signal.SIGKILL)
        assert "rmq: no shard of broker-a is left: " in broker.log()


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "rmq", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(HANG_S)
        assert process.stdout is not None
        process.stdout.close()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("shards", [1, 2])
def test_a_broker_without_a_name_server_says_so_and_when_that_is_over(
    tmp_path: Path, shards: int
) -> None:
    port = free_port()
    options = ["--shards", str(shards), "--port", str(free_port(above=10 * (shards - 1), step=10))]
    options += ["--store", str(tmp_path / "store"), "-n", f"127.0.0.1:{port}"]
    with running("broker", *options) as broker:
        line = line_of(broker)
        assert re.search(r"is ready in [\d.]+ s, but is not registered: nobody answers at ", line)
        assert f"at 127.0.0.1:{port}; that is tried again every 1 to 30 s: broker " in line
        advice = line.partition(" Try: ")[2].split()
        assert advice == ["rmq", "namesrv", "--port", str(port)]
        with running(*advice[1:]) as names:
            assert f"name server 127.0.0.1:{port}." in line_of(names)
            line = line_of(broker)
            assert line.startswith(f"rmq: registered at 127.0.0.1:{port}: broker-a")
            assert ("broker-a-1" in line) == (shards == 2)
            advice = line.partition("Try: ")[2].partition(" && ")[0].split()
            done = subprocess.run(
                [sys.executable, "-m", *advice], capture_output=True, text=True, timeout=HANG_S
            )
            assert done.returncode == 0, done.stderr
            options = ["--store", str(tmp_path / "other"), "--port", "0"]
            options += ["--set", "brokerName=broker-b", "-n", f"127.0.0.1:{port}"]
            with running("broker", *options) as other:
                assert re.search(r"is ready in [\d.]+ s: broker broker-b at ", line_of(other))


def test_a_name_server_elsewhere_that_does_not_answer_is_named_with_another_advice(
    tmp_path: Path,
) -> None:
    port = free_port()
    with running("broker", "--store", str(tmp_path / "store"), "--port", "0",
                 "-n", f"127.0.0.2:{port};127.0.0.3:{port}") as broker:  # fmt: skip
        line = line_of(broker)
    assert f"nobody answers at 127.0.0.2:{port}, nobody answers at 127.0.0.3:{port};" in line
    assert "Try: " not in line and "-n HOST:PORT" in line


@pytest.mark.parametrize("is_on_path", [True, False])
def test_what_is_advised_is_found_by_a_shell(tmp_path: Path, is_on_path: bool) -> None:
    """The advised command is `rmq` if a shell finds that, and otherwise the path of the script."""
    script = tmp_path / "rmq"  # as pip makes one
    text = "import sys\nfrom rmq.__main__ import main\nsys.exit(main())\n"
    script.write_text(f"#!{sys.executable}\n{text}")
    script.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}" if is_on_path else "/usr/bin:/bin"
    process = subprocess.Popen(
        [script, "namesrv", "--port", "0"], env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        advice = line_of(process).partition("Try: ")[2].split()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG_S)
    assert advice[:2] == ["rmq" if is_on_path else str(script), "broker"]


OWN = ("--set", "tls.server.mode=enforcing")


@pytest.mark.parametrize("kind", ["plain", "accounts", "own certificate", "secured"])
def test_what_is_advised_works_where_not_everybody_may_ask(tmp_path: Path, kind: str) -> None:
    """The advised commands work as they are pasted into a shell. The password that --user asks for
    comes from RMQ_SECRET_KEY here."""
    options, password, wanted = [], "", ""
    if kind == "accounts":
        options, password, wanted = list(ARMED), ADMIN.secret_key, "--user admin"
    elif kind == "own certificate":
        options, wanted = list(OWN), "--tls"
    elif kind == "secured":
        made = tmp_path / "secure"
        done = command_line.rmq("setup", "security", "--directory", str(made))
        assert done.returncode == 0, done.stderr
        options = ["-c", str(made / "security.conf")]
        password = json.loads((made / "admin.json").read_text())["password"]
        wanted = f"--user admin --tls-ca {made / 'authority.pem'}"
    with broker_process(tmp_path, options) as broker:
        advice = broker.ready_line.partition("Try: ")[2].strip()
        assert not password or password not in broker.ready_line
        asking = f"-n {broker.namesrv} {wanted}".strip()
        assert advice.count(asking) == 2 and "RMQ_SECRET_KEY" not in advice
        follow(advice, password)


def follow(advice: str, password: str = "") -> None:
    """Both commands do their work, as they are pasted."""
    told = []
    for line in advice.split(" && "):
        words = shlex.split(line)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("RMQ_SECRET_KEY", password)
            while "=" in words[0]:
                patched.setenv(*words.pop(0).split("="))
            done = command_line.rmq(*words[1:])
        assert done.returncode == 0, (line, done.stderr)
        told.append(done.stdout)
    assert told[0].startswith("SEND_OK") and "hello" in told[1]


@pytest.mark.parametrize("has_root", [False, True])
def test_what_is_advised_works_with_a_certificate_of_a_private_authority(
    tmp_path: Path, has_root: bool
) -> None:
    """The file that clients must trust is named if the server has it, and else as the operator's,
    who knows it."""
    authority = Authority(tmp_path)
    pair = authority.pair("server")
    if has_root:
        chain = tmp_path / "chain.pem"
        chain.write_bytes(pair.certificate.read_bytes() + authority.certificate.read_bytes())
        pair = Pair(chain, pair.key)
    with broker_process(tmp_path / "store", pair.settings("enforcing")) as broker:
        advice = broker.ready_line.partition("Try: ")[2].strip()
        named = pair.certificate if has_root else AUTHORITY
        assert advice.count(f" --tls-ca {named}") == 2
        follow(advice.replace(AUTHORITY, str(authority.certificate)))


def test_accounts_of_whom_nobody_is_known_are_named_as_such() -> None:
    """If the settings name no account, because the accounts are in a store or in ACL 1.0's files,
    the advice says --user NAME."""
    settings = load_properties(None, {"authenticationEnabled": "true", "tls.server.mode": ""})
    assert advised_options(settings) == (" --user NAME", "")
    given = {"authenticationEnabled": "true", "tls.server.mode": "enforcing",
             "tls.server.certPath": "/s.pem", "tls.server.keyPath": "/s.key",
             "tls.server.need.client.auth": "require",
             "tls.server.trustCertPath": "/ca.pem", "tls.client.certPath": "/my own.pem",
             INNER: '{"accessKey":"in","secretKey":"s"}'}  # fmt: skip
    asking = f" --user in --tls-ca {AUTHORITY} --tls-cert '/my own.pem'"
    assert advised_options(load_properties(None, given)) == (asking, "")
    given["tls.client.trustCertPath"] = "/ca.pem"
    asking = " --user in --tls-ca /ca.pem --tls-cert '/my own.pem'"
    assert advised_options(load_properties(None, given)) == (asking, "")
