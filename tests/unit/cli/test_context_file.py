"""Goal: a cluster's name stands for its name servers, account and TLS. What is said closer to the
command wins. Commands that serve ignore contexts. A damaged file is named.

Method: the commands, and the environment that child processes would get. With accounts and TLS,
tests/process/test_secured_cluster.py shows what that environment does.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from support.command_line import rmq

from rmq.cli.context_file import chosen_environment, contexts_path
from rmq.client.blocking import credentials, encryption
from rmq.errors import ConfigError

HERE, THERE = "127.0.0.1:1", "127.0.0.1:2"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in os.environ:
        if name.startswith("RMQ_") or name == "NAMESRV_ADDR":
            monkeypatch.delenv(name)


def done(*words: str) -> str:
    result = rmq(*words)
    assert result.returncode == 0, result.stderr
    return result.stdout


def failed(*words: str) -> str:
    result = rmq(*words)
    assert result.returncode == 2, result.stdout
    return result.stderr


def asked(*words: str) -> str:
    """Where a command fails, because nobody answers there: this shows which name server it asks."""
    result = rmq(*words, "topic", "list")
    assert result.returncode == 3
    return result.stderr


def test_the_first_is_used_and_another_by_its_name() -> None:
    assert chosen_environment(None, {}) == {}
    assert "used by commands from now on" in done("context", "add", "here", "-n", HERE)
    assert done("context", "add", "there", "-n", THERE) == f"there: {THERE}\n"
    assert HERE in asked() and THERE in asked("--context", "there")
    done("context", "use", "there")
    assert THERE in asked()
    for words, where in ((("--context", "here"), HERE), ((), THERE)):
        assert where in rmq(*words, "broker", "status").stderr
    rows = json.loads(done("context", "list", "--json"))
    assert [(row["used"], row["name"]) for row in rows] == [(False, "here"), (True, "there")]
    assert json.loads(done("context", "show", "--json"))["namesrv"] == THERE
    assert json.loads(done("context", "show", "here", "--json"))["tls"] is False
    assert json.loads(done("--context", "here", "context", "show", "--json"))["namesrv"] == HERE
    done("context", "remove", "there")
    assert chosen_environment(None, {}) == {}


def test_what_is_said_nearer_counts_first(monkeypatch: pytest.MonkeyPatch) -> None:
    done("context", "add", "here", "-n", HERE)
    done("context", "add", "there", "-n", THERE)
    assert "127.0.0.1:3" in asked("-n", "127.0.0.1:3")
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:4")
    assert "127.0.0.1:4" in asked()
    assert THERE in asked("--context", "there")
    monkeypatch.setenv("RMQ_CONTEXT", "there")
    assert THERE in asked() and HERE in asked("--context", "here")
    said = rmq("context", "use", "here")
    assert "RMQ_CONTEXT=there takes precedence" in said.stderr
    assert "cannot be used together" in failed("-n", HERE, "--context", "here", "topic", "list")


def set_of(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if value}


@pytest.fixture
def prod(tmp_path: Path) -> dict[str, str]:
    """A context that has everything and is in use. Returns the environment that it stands for."""
    file = tmp_path / "alice.json"
    file.write_text('{"accessKey":"alice","secretKey":"secret"}')
    done("context", "add", "prod", "-n", HERE, "--credentials", str(file), "--tls-ca", str(file))
    return {"NAMESRV_ADDR": HERE, "RMQ_CREDENTIALS": str(file), "RMQ_TLS": "1",
            "RMQ_TLS_CA": str(file)}  # fmt: skip


def test_account_and_tls_go_with_it(prod: dict[str, str]) -> None:
    assert set_of(chosen_environment(None, {})) == prod
    others = {"RMQ_ACCESS_KEY": "bob", "RMQ_CREDENTIALS": "x", "RMQ_TLS_CERT": "x",
              "RMQ_TLS_VERIFY": "0"}  # fmt: skip
    whole = chosen_environment("prod", others)
    assert set_of(whole) == prod
    assert set(others) <= set(whole), "the environment's belong to another cluster"
    assert "secret" not in contexts_path().read_text()
    assert stat.S_IMODE(contexts_path().stat().st_mode) == 0o600


def test_of_the_one_in_use_what_the_environment_does_not_say(prod: dict[str, str]) -> None:
    assert chosen_environment(None, {"NAMESRV_ADDR": THERE}) == {}
    assert "RMQ_CREDENTIALS" not in chosen_environment(None, {"RMQ_ACCESS_KEY": "bob"})
    # A variable that is only about certificates must not switch TLS off.
    for name in ("RMQ_TLS_CERT", "RMQ_TLS_CA", "RMQ_TLS_VERIFY"):
        assert set_of(chosen_environment(None, {name: "x"})) == prod
    assert "RMQ_TLS" not in chosen_environment(None, {"RMQ_TLS": "0"})


@pytest.mark.parametrize("is_named", [False, True])
def test_another_address_gets_neither_account_nor_tls(
    prod: dict[str, str], monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(
        "rmq.client.blocking.cluster.ClusterView.topics",
        lambda cluster: asked.append((cluster.name_servers, credentials.present(),
                                      encryption.client_tls())) or [],
    )  # fmt: skip
    if is_named:
        monkeypatch.setenv("RMQ_CONTEXT", "prod")
    done("topic", "list", "--all")
    done("topic", "list", "--all", "-n", THERE)
    done("-n", THERE, "topic", "list", "--all")
    first, *others = asked
    assert first[0] == [HERE] and first[1].access_key == "alice" and first[2] is not None
    assert others == [([THERE], None, None)] * 2
    if is_named:
        assert THERE in rmq("-n", THERE, "broker", "status").stderr
    assert "cannot be used together" in failed("--context", "prod", "topic", "list", "-n", THERE)


def test_a_command_leaves_the_environment_as_it_was() -> None:
    before = dict(os.environ)
    done("context", "add", "here", "-n", HERE)
    asked("--context", "here")
    assert dict(os.environ) == before


def test_what_serves_goes_by_none(tmp_path: Path) -> None:
    contexts_path().parent.mkdir(parents=True)
    contexts_path().write_text("damaged")
    assert rmq("broker", "--help").returncode == 0
    assert rmq("store", "check", str(tmp_path)).returncode != 0
    assert "correct the file, or remove it" in failed("topic", "list")
    with pytest.raises(ConfigError, match=r"contexts\.json: JSON is malformed"):
        chosen_environment(None, {})
    assert chosen_environment(None, {"NAMESRV_ADDR": THERE}) == {}, "it is not needed"
    assert "namesrv cannot be used with --context" in failed("--context", "x", "namesrv", "--help")


def test_a_home_that_is_anothers_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    assert chosen_environment(None, {}) == {}


def test_what_cannot_be_is_said() -> None:
    assert "known contexts: none; add one: `rmq context add`" in failed("context", "use", "prod")
    assert "there is no context prod" in failed("--context", "prod", "topic", "list")
    assert "not an address of the form host:port" in failed("context", "add", "x", "-n", "nowhere")
    done("context", "add", "here", "-n", HERE)
    assert "add --replace to replace it" in failed("context", "add", "here", "-n", THERE)
    done("context", "add", "here", "-n", THERE, "--replace")
    assert THERE in asked()
    assert "give the NAME of a context, or --none" in failed("context", "use")
    assert done("context", "use", "--none") == "127.0.0.1:9876\n"
    assert "no context is in use" in failed("context", "show")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "_RMQ_COMPLETE" in done("completion", shell)
    monkeypatch.setenv("_RMQ_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "rmq topic de")
    monkeypatch.setenv("COMP_CWORD", "2" if shell != "fish" else "de")
    assert {"describe", "delete"} <= set(done().replace("plain,", "").split())
