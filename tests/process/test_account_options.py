"""Options that give commands an account: --user with its password, --credentials, --tls, and the
variables of the environment.

Method: commands as processes, at a terminal and without one, against a broker that requires
accounts and TLS. Files of all kinds that these options can read: test_accounts.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.forked_commands import run_rmq
from support.secured_broker import SecuredBroker, secured_broker
from support.source_tree import ROOT
from support.terminal import at_terminal
from support.waiting import HANG_S

OURS = (
    "RMQ_ACCESS_KEY",
    "RMQ_SECRET_KEY",
    "RMQ_CREDENTIALS",
    "RMQ_TLS",
    "RMQ_TLS_CA",
    "NAMESRV_ADDR",
)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as secured:
        secured.run("rmq acl allow alice Group:readers --actions Sub")
        secured.run("rmq send orders hello")  # it makes the topic
        yield secured


def environment(**given: str) -> dict[str, str]:
    """This process's environment, with none of rmq's variables but those that are given."""
    return {**{key: text for key, text in os.environ.items() if key not in OURS}, **given}


def by_tls(secured: SecuredBroker) -> tuple[str, ...]:
    return ("-n", secured.broker.namesrv, "--tls", "--tls-ca", str(secured.authority))


def run(*words: str, **given: str) -> subprocess.CompletedProcess[str]:
    return run_rmq(*words, environment=environment(**given))


def run_and_tell(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs rmq without a terminal; the text is its standard input."""
    return subprocess.run(
        [sys.executable, "-m", "rmq", *words], input=text, capture_output=True, text=True,
        timeout=HANG_S, cwd=ROOT, env=environment(), start_new_session=True,
    )  # fmt: skip


def test_a_password_is_asked_for_and_not_shown(secured: SecuredBroker) -> None:
    words = ("send", "orders", "hello", *by_tls(secured), "--user", "alice")
    for typed, code in ((secured.password, 0), (f"not {secured.password}", 1)):
        with at_terminal(*words, environment=environment()) as terminal:
            terminal.until("Password of alice: ")
            terminal.type(typed)
            assert terminal.code() == code, terminal.shown
            assert secured.password not in terminal.shown
            assert ("check signature failed." in terminal.shown) == (code == 1)


def test_without_a_terminal_it_is_read(secured: SecuredBroker) -> None:
    """The password of --user is the first line of standard input, if there is no terminal."""
    words = ("send", "orders", "hello", *by_tls(secured), "--user", "alice")
    done = run_and_tell(f"{secured.password}\n", *words)
    assert done.returncode == 0, done.stderr
    assert secured.password not in done.stdout + done.stderr
    assert "Password of alice" in done.stderr, "standard output is for what was sent"
    assert "Password" not in done.stdout
    done = run_and_tell("", *words)
    assert done.returncode == 1, "there is none, and nobody is asked for ever"
    assert "Aborted!" in done.stderr


def test_the_environment_has_the_password(secured: SecuredBroker) -> None:
    """If RMQ_SECRET_KEY has the password, the command does not ask for it, even at a terminal."""
    words = ("send", "orders", "hello", *by_tls(secured))
    secret = {"RMQ_SECRET_KEY": secured.password}
    with at_terminal(*words, "--user", "alice", environment=environment(**secret)) as terminal:
        assert terminal.code() == 0
        assert "Password" not in terminal.shown
    assert run(*words, RMQ_ACCESS_KEY="alice", **secret).returncode == 0
    assert run(*words, RMQ_ACCESS_KEY="nobody", **secret).returncode == 1
    assert run(*words, "--user", "alice", RMQ_ACCESS_KEY="nobody", **secret).returncode == 0


def test_a_file_has_the_account(secured: SecuredBroker, tmp_path: Path) -> None:
    """--credentials counts more than RMQ_CREDENTIALS, and --user counts more than both."""
    alice, nobody = tmp_path / "alice.json", tmp_path / "nobody.json"
    alice.write_text(json.dumps({"accessKey": "alice", "secretKey": secured.password}))
    nobody.write_text(json.dumps({"accessKey": "nobody", "secretKey": "x"}))
    words = ("send", "orders", "hello", *by_tls(secured))
    assert run(*words, RMQ_CREDENTIALS=str(alice)).returncode == 0
    assert run(*words, "--credentials", str(alice), RMQ_CREDENTIALS=str(nobody)).returncode == 0
    refused = run(*words, RMQ_CREDENTIALS=str(nobody))
    assert refused.returncode == 1
    assert "User:nobody is not found." in refused.stderr
    given = {"RMQ_CREDENTIALS": str(nobody), "RMQ_SECRET_KEY": secured.password}
    assert run(*words, "--user", "alice", **given).returncode == 0


def test_the_load_generator_goes_by_tls(secured: SecuredBroker) -> None:
    # Each run ends after so many messages. On a busy machine none may come within a short time.
    where = ("-t", "orders", "-d", "60", "--count", "64", "--warmup", "0", "--json",
             "-n", secured.broker.namesrv, "--user", "alice")  # fmt: skip
    secret = {"RMQ_SECRET_KEY": secured.password}
    trusting = ("--tls", "--tls-ca", str(secured.authority))
    reading = ("-g", "readers")
    kinds = (("producer",), ("batch",), ("latency",), ("consumer", *reading), ("pop", *reading))
    for kind in kinds:
        done = run("bench", *kind, *where, *trusting, **secret)
        assert done.returncode == 0, (kind, done.stderr)
        found = json.loads(done.stdout)
        assert (found["failures"], found["messages"] > 0) == ({}, True), kind
    assert run("bench", "producer", *where, **secret).returncode != 0, "not in the clear"
    strange = run("bench", "producer", *where, "--tls", **secret)
    assert strange.returncode != 0
    assert "is not trusted" in strange.stderr
    given = {"RMQ_TLS": "1", "RMQ_TLS_CA": str(secured.authority), **secret}
    assert json.loads(run("bench", "producer", *where, **given).stdout)["failures"] == {}
