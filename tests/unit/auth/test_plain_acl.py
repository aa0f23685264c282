"""The files of ACL 1.0 as accounts, and the address patterns in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq.auth.authorization import Wanted, address, refusal
from rmq.auth.fixed_accounts import FixedAccounts
from rmq.auth.plain_acl import PlainAclFiles, files, read
from rmq.auth.policy import Acl, Action, Decision
from rmq.auth.resource import group, topic
from rmq.auth.white_list import WhiteList
from rmq.errors import ConfigError, ProtocolError

PUB, SUB = frozenset((Action.PUB,)), frozenset((Action.SUB,))
# The example in RocketMQ's own distribution, with its explanations.
EXAMPLE = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 01234567
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: "12345678"
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""


@pytest.fixture
def example(tmp_path: Path) -> FixedAccounts:
    (tmp_path / "plain_acl.yml").write_text(EXAMPLE)
    return read([tmp_path / "plain_acl.yml"])


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        (Wanted(topic("topicA"), PUB), False),
        (Wanted(topic("topicB"), PUB), True),
        (Wanted(topic("topicB"), SUB), True),
        (Wanted(topic("topicC"), PUB), False),
        (Wanted(topic("topicC"), SUB), True),
        (Wanted(topic("topicD"), SUB), False),
        (Wanted(group("groupA"), SUB), False),
        (Wanted(group("groupB"), SUB), True),
        (Wanted(group("groupC"), SUB), True),
        (Wanted(group("groupD"), SUB), True),
        (Wanted(topic("%RETRY%groupA"), SUB), False),
        (Wanted(topic("topicB"), frozenset((Action.DELETE,))), False),
    ],
)
def test_the_example_of_rocketmq(example: FixedAccounts, wanted: Wanted, allowed: bool) -> None:
    user = example.users["RocketMQ"]
    assert user.password == "01234567"
    found = refusal(user, example.acls["RocketMQ"], [wanted], None)
    assert (found == "") is allowed
    root = example.users["rocketmq2"]
    assert root.is_super
    assert not user.is_super


def test_a_retry_topic_is_the_group_of_its_whole_name(tmp_path: Path) -> None:
    """ACL 1.0 has no pops, so %RETRY%a_b must belong to group a_b alone, and never count as what
    group a pops again of topic b."""
    (tmp_path / "plain_acl.yml").write_text(
        "accounts:\n"
        "- {accessKey: whole_name, secretKey: abcdefgh, groupPerms: [a_b=SUB], "
        "topicPerms: ['%RETRY%c_d=SUB']}\n"
        "- {accessKey: in_pieces, secretKey: abcdefgh, groupPerms: [a=SUB], topicPerms: [b=SUB]}\n"
    )
    found = read([tmp_path / "plain_acl.yml"])
    for name, retries, may in (
        ("whole_name", "%RETRY%a_b", True), ("whole_name", "%RETRY%c_d", True),
        ("whole_name", "%RETRY%a", False), ("in_pieces", "%RETRY%a_b", False),
        ("in_pieces", "%RETRY%a", True),
    ):  # fmt: skip
        wanted = [Wanted(topic(retries), SUB)]
        assert (refusal(found.users[name], found.acls[name], wanted, None) == "") is may, retries


@pytest.mark.parametrize("kind", [topic, group])
def test_a_default_is_for_what_is_not_listed(tmp_path: Path, kind: Any) -> None:
    """As in RocketMQ 4, a default must add nothing to what the file says of a name."""
    (tmp_path / "plain_acl.yml").write_text(
        "accounts:\n"
        "- {accessKey: carol12, secretKey: abcdefgh, "
        "defaultTopicPerm: SUB, topicPerms: [salaries=PUB, both=PUB|SUB, shut=DENY], "
        "defaultGroupPerm: SUB, groupPerms: [salaries=PUB, both=PUB|SUB, shut=DENY]}\n"
    )
    acl = read([tmp_path / "plain_acl.yml"]).acls["carol12"]
    for name, actions, decision in (
        ("salaries", PUB, Decision.ALLOW), ("salaries", SUB, Decision.DENY),
        ("both", PUB, Decision.ALLOW), ("both", SUB, Decision.ALLOW),
        ("shut", PUB, Decision.DENY), ("shut", SUB, Decision.DENY),
        ("salaries2", SUB, Decision.ALLOW), ("salaries2", PUB, None),
    ):  # fmt: skip
        assert acl.decision(kind(name), actions, None) is decision, name
    assert Acl.of(acl.members()).members() == acl.members(), "as an import carries it"


def test_addresses_of_the_example(example: FixedAccounts) -> None:
    def is_white(text: str) -> bool:
        return any(each.covers(address(text)) for each in example.white)

    assert is_white("10.10.103.7:1")
    assert is_white("192.168.0.255:1")
    assert not is_white("10.10.104.7:1")
    assert list(example.unsigned) == ["rocketmq2"]
    assert example.unsigned["rocketmq2"].covers(address("192.168.1.9:1"))


def test_the_first_file_that_has_a_key_counts(tmp_path: Path) -> None:
    more = tmp_path / "acl" / "deep"
    more.mkdir(parents=True)
    (tmp_path / "plain_acl.yml").write_text(EXAMPLE)
    account = "accounts:\n- {accessKey: %s, secretKey: abcdefgh, admin: true}\n"
    (tmp_path / "acl" / "a.yml").write_text(account % "RocketMQ")
    (more / "b.yaml").write_text(account % "another")
    (more / "c.txt").write_text("no YAML: [")
    paths = files(tmp_path / "plain_acl.yml", tmp_path / "acl")
    assert [path.name for path in paths] == ["plain_acl.yml", "a.yml", "b.yaml"]
    found = read(paths)
    assert sorted(found.users) == ["RocketMQ", "another", "rocketmq2"]
    assert found.users["RocketMQ"].password == "01234567"
    assert files(tmp_path / "none.yml", tmp_path / "none") == []


@pytest.mark.parametrize(
    "text",
    [
        "accounts: [3]",
        "accounts: {a: b}",
        "accounts: [{accessKey: short, secretKey: 12345678}]",
        "accounts: [{accessKey: RocketMQ, secretKey: short}]",
        "accounts: [{accessKey: RocketMQ, secretKey: 12345678, topicPerms: [t]}]",
        "accounts: [{accessKey: RocketMQ, secretKey: 12345678, topicPerms: t=PUB}]",
        "accounts: [{accessKey: RocketMQ, secretKey: 12345678, whiteRemoteAddress: 1.2}]",
        "globalWhiteRemoteAddresses: [10.0.0.300-301]",
        "globalWhiteRemoteAddresses: 10.0.0.1",
        "- a list",
        "not: [closed",
        "key: !!python/object/apply:os.system [echo]",
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "acl.yml"
    path.write_text(text)
    if "python" in text:
        assert read([path]).users == {}, "a text like any other"
        return
    with pytest.raises(ConfigError, match=r"acl\.yml"):
        read([path])


def test_an_empty_file_has_no_accounts(tmp_path: Path) -> None:
    for text in ("", "accounts:\n", "# nothing\n", "accounts: []\n"):
        (tmp_path / "acl.yml").write_text(text)
        assert read([tmp_path / "acl.yml"]) == FixedAccounts()


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["1.2.3.4", "::1"], []),
        ("*.*.*.*", ["1.2.3.4"], []),
        ("10.10.103.*", ["10.10.103.0", "10.10.103.255"], ["10.10.104.0", "::1"]),
        ("10.10.*.*", ["10.10.0.0", "10.10.255.255"], ["10.11.0.0"]),
        ("10.10.*", ["10.10.7.8"], ["10.11.0.0"]),
        ("10.10.103.4", ["10.10.103.4"], ["10.10.103.5"]),
        ("10.10.103.4-6", ["10.10.103.4", "10.10.103.6"], ["10.10.103.3", "10.10.103.7"]),
        ("10.10.1-2.{4,6}", ["10.10.1.4", "10.10.2.6"], ["10.10.3.4", "10.10.1.5"]),
        ("1.1.1.1, 2.2.2.{1,2}", ["1.1.1.1", "2.2.2.2"], ["1.1.1.2", "2.2.2.3"]),
        ("fd00:1:*", ["fd00:1::5"], ["fd00:2::5", "1.2.3.4"]),
        ("::1", ["::1"], ["::2"]),
        ("", [], ["1.2.3.4"]),
    ],
)
def test_address_patterns(pattern: str, inside: list[str], outside: list[str]) -> None:
    found = WhiteList.of(pattern)
    assert [found.covers(address(each)) for each in inside] == [True] * len(inside)
    assert [found.covers(address(each)) for each in outside] == [False] * len(outside)
    assert found.covers(None) is found.everybody


@pytest.mark.parametrize(
    "pattern",
    ["1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.5-4", "1.2.3.{a}", "x", "1.*.3", "fd00:x:*"],
)
def test_what_is_no_address_pattern(pattern: Any) -> None:
    with pytest.raises(ProtocolError):
        WhiteList.of(pattern)


def test_files_are_read_anew_when_one_changes(tmp_path: Path) -> None:
    main, more = tmp_path / "plain_acl.yml", tmp_path / "acl" / "more.yml"
    files_of = PlainAclFiles(main)
    with pytest.raises(ConfigError, match=r"plain_acl\.yml is not there"):
        files_of.read()
    main.write_text(EXAMPLE)
    first = files_of.read()
    assert sorted(first.users) == ["RocketMQ", "rocketmq2"]
    trace = topic("RMQ_SYS_TRACE_TOPIC")
    assert first.acls["RocketMQ"].decision(trace, PUB, None) is Decision.ALLOW
    assert files_of.changed() is None
    more.parent.mkdir()
    more.write_text("accounts: [{accessKey: another, secretKey: 12345678}]")
    assert settled(files_of) == ["RocketMQ", "another", "rocketmq2"]
    more.unlink()
    assert settled(files_of) == ["RocketMQ", "rocketmq2"]
    assert files_of.changed() is None


def settled(files_of: PlainAclFiles) -> list[str]:
    """A changed file must be used only from the second look on that sees the change."""
    assert files_of.changed() is None, "somebody may be writing it"
    found = files_of.changed()
    assert found is not None
    return sorted(found.users)


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(EXAMPLE)
    files_of = PlainAclFiles(path)
    files_of.read()
    text = EXAMPLE.replace("rocketmq2", "rocketmq3")
    for end in range(0, len(text), 100):
        path.write_text(text[:end])  # a cut file may still be valid YAML
        assert files_of.changed() is None
    path.write_text(text)
    assert settled(files_of) == ["RocketMQ", "rocketmq3"]


def test_a_file_that_cannot_be_used_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(EXAMPLE)
    files_of = PlainAclFiles(path)
    files_of.read()
    for broken in ("accounts: [", None):
        if broken is None:
            path.unlink()
        else:
            path.write_text(broken)
        assert files_of.changed() is None
        with pytest.raises(ConfigError, match=r"plain_acl\.yml"):
            files_of.changed()
        assert files_of.changed() is None


def test_a_file_that_could_not_be_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(EXAMPLE)
    files_of = PlainAclFiles(path)
    files_of.read()
    path.write_text(EXAMPLE.replace("rocketmq2", "rocketmq3"))
    assert files_of.changed() is None

    def refused(*_: object) -> str:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", refused)
        for _ in range(2):
            with pytest.raises(ConfigError, match="Permission denied"):
                files_of.changed()
    found = files_of.changed()
    assert found is not None
    assert sorted(found.users) == ["RocketMQ", "rocketmq3"]


def test_an_entry_for_traces_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    text = EXAMPLE.replace("topicA=DENY", "RMQ_SYS_TRACE_TOPIC=PUB|SUB")
    path.write_text(text)
    acl = PlainAclFiles(path).read().acls["RocketMQ"]
    trace = topic("RMQ_SYS_TRACE_TOPIC")
    assert acl.decision(trace, PUB, None) is acl.decision(trace, SUB, None) is Decision.ALLOW
    path.write_text(text.replace("PUB|SUB\n      - topicB", "DENY\n      - topicB"))
    acl = PlainAclFiles(path).read().acls["RocketMQ"]
    assert acl.decision(trace, PUB, None) is Decision.DENY
