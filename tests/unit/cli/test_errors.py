"""What a command says about an error: the cause, and the way out."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from support.command_line import rmq

from rmq.cli.errors import ACCESS_HINTS, describe_error
from rmq.client.blocking.encryption import COMMAND
from rmq.errors import ACCESS_REMEDIES, RemoteError, UnreachableError
from rmq.format.client_tls import PARAMETERS


@pytest.mark.parametrize("ending", ACCESS_REMEDIES)
def test_each_refusal_of_an_account_has_a_remedy_in_both_words(ending: str) -> None:
    error = RemoteError(16, f"User:alice {ending}")
    assert str(error) == f"code 16: User:alice {ending} ({ACCESS_REMEDIES[ending]})"
    assert describe_error(error).hint == ACCESS_HINTS[ending]
    assert error.remark == f"User:alice {ending}"


def test_remedies_about_tls_are_in_the_words_of_commands() -> None:
    for parameter, option in zip(astuple(PARAMETERS), astuple(COMMAND), strict=True):
        told = describe_error(UnreachableError(f"x:1: give it by {parameter}, or else"))
        assert told.error == f"x:1: give it by {option}, or else"
    other = "authorities /etc/tls_ca_file: No such file"
    assert describe_error(UnreachableError(other)).error == other


def test_other_refusals_have_none() -> None:
    assert str(RemoteError(16, "the topic is read-only")) == "code 16: the topic is read-only"
    assert str(RemoteError(17, "orders is not found.")) == "code 17: orders is not found."
    told = describe_error(RemoteError(16, "the topic is read-only"))
    assert told.text().endswith("topic describe`")
    assert set(ACCESS_HINTS) == set(ACCESS_REMEDIES)


@pytest.mark.parametrize(
    ("remark", "is_of_permissions"),
    [
        ("the topic[orders] pulling message is forbidden", True),
        ("Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden.", True),
        ("no queue of orders is writable", True),
        ("the broker[10.0.0.5] does not take sends at present", True),
        ("broker-a: nosuch: no such settings; nothing was changed", False),
        ("broker-a: autoCreateTopicEnable=x: cannot be changed at run time", False),
        ("10.0.0.5:10911: The user is existed", False),
        ("10.0.0.5:10911: The resource is null.", False),
    ],
)
def test_only_what_permissions_forbid_leads_to_the_topic(
    remark: str, is_of_permissions: bool
) -> None:
    hint = describe_error(RemoteError(16, remark)).hint or ""
    assert ("rmq topic describe" in hint) is is_of_permissions


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("topic", "list", "--nothing"), 2),  # click's own error, with the usage
        (("topic", "lost"), 2),
        (("topics",), 2),
        (("send", "t", "x", "--delay", "1s", "--at", "now"), 2),  # rmq's error about wrong usage
        (("check", "group"), 3),
        (("context", "use", "nowhere"), 2),
        (("topic", "list", "-n", "127.0.0.1:1"), 3),
        (("send", "t", "x", "-n", "127.0.0.1:1"), 3),
    ],
)
def test_every_error_has_the_same_prefix(words: tuple[str, ...], code: int) -> None:
    done = rmq(*words)
    assert done.returncode == code, done.stderr
    lines = done.stderr.splitlines()
    assert sum(line.startswith("rmq: ") for line in lines) == 1, done.stderr
    assert "Error:" not in done.stderr
    if lines[0].startswith("Usage: "):
        assert lines[1].startswith("Try 'rmq") and lines[1].endswith(" --help' for help.")


def test_a_group_without_a_command_shows_its_help() -> None:
    done = rmq("topic")
    assert "Commands:" in done.stdout + done.stderr and "rmq: " not in done.stderr
