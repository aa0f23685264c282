"""Goal: a cluster's name stands for its name servers, account and TLS; what is said nearer counts
first; commands that serve go by none; a damaged file is named.

Method: the commands, and the environment that others would find. With accounts and TLS:
tests/process/test_secured_cluster.py shows what that environment does.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from support.command_line import rmq

from rmq.cli.contexts import chosen_environment, contexts_path
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
    """Which name server a command asks: nobody answers there."""
    result = rmq(*words, "topic", "list")
    assert result.returncode == 3
    return result.stderr


def test_the_first_is_used_and_another_by_its_name() -> None:
    assert "127.0.0.1:9876" in asked() or HERE not in asked()
    assert "which commands ask now" in done("context", "add", "here", "-n", HERE)
    assert done("context", "add", "there", "-n", THERE) == f"there: {THERE}\n"
    assert HERE in asked() and THERE in asked("--context", "there")
    done("context", "use", "there")
    assert THERE in asked()
    for words, where in ((("--context", "here"), HERE), ((), THERE)):
        assert where in rmq(*words, "broker", "status").stderr
    rows = json.loads(done("context", "list", "--json"))
    assert [(row["used"], row["name"]) for row in rows] == [(None, "here"), ("*", "there")]
    assert json.loads(done("context", "show"))["namesrv"] == THERE
    assert json.loads(done("context", "show", "here"))["tls"] is False
    done("context", "remove", "there")
    assert THERE not in asked() and HERE not in asked()


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
    assert "RMQ_CONTEXT=there counts first" in said.stderr
    assert "give one of them" in failed("-n", HERE, "--context", "here", "topic", "list")


def test_account_and_tls_go_with_it(tmp_path: Path) -> None:
    file = tmp_path / "alice.json"
    file.write_text('{"accessKey":"alice","secretKey":"secret"}')
    done("context", "add", "prod", "-n", HERE, "--credentials", str(file), "--tls-ca", str(file))
    wanted = {"NAMESRV_ADDR": HERE, "RMQ_CREDENTIALS": str(file), "RMQ_TLS": "1",
              "RMQ_TLS_CA": str(file)}  # fmt: skip
    assert chosen_environment(None, {}) == wanted
    whole = chosen_environment("prod", {"RMQ_TLS_CERT": "x"})
    assert {name: value for name, value in whole.items() if value} == wanted
    assert whole["RMQ_TLS_CERT"] == "", "the environment's belongs to another cluster"
    assert chosen_environment(None, {"NAMESRV_ADDR": THERE}) == {}
    assert "RMQ_CREDENTIALS" not in chosen_environment(None, {"RMQ_ACCESS_KEY": "bob"})
    assert set(chosen_environment(None, {"RMQ_TLS_CERT": "x"})) == {
        "NAMESRV_ADDR", "RMQ_CREDENTIALS"}  # fmt: skip
    assert "secret" not in contexts_path().read_text()
    assert stat.S_IMODE(contexts_path().stat().st_mode) == 0o600


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
    assert "mend it, or remove it" in failed("topic", "list")
    with pytest.raises(ConfigError, match=r"contexts\.json: JSON is malformed"):
        chosen_environment(None, {})


def test_what_cannot_be_is_said() -> None:
    assert "there is none: rmq context add NAME" in failed("context", "use", "prod")
    assert "there is no context prod" in failed("--context", "prod", "topic", "list")
    assert "not an address of the form host:port" in failed("context", "add", "x", "-n", "nowhere")
    done("context", "add", "here", "-n", HERE)
    assert "--replace puts this one" in failed("context", "add", "here", "-n", THERE)
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
