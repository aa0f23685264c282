"""Goal: every command that shows or changes something has -o, and what it prints as JSON has the
keys that docs/command-line.md has, no more and no less; YAML says the same, errors are JSON too.

Method: all commands of the tree, each called in this process on one broker of two shards that has
something of everything. Cannot show: keys of things that a sound broker does not have, such as
damage in a store, and of the commands in ELSEWHERE.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest
from support.command_line import rmq
from support.pages import DOCS
from support.sharded_broker import ShardedBroker, sharded_broker
from support.store_image import StoreImage
from support.topics import until_routed
from support.waiting import wait_until

from rmq import Admin, Message, Producer, PushConsumer
from rmq.cli.main import cli
from rmq.client.consumer.listener import ConsumeConcurrentlyStatus

ACCOUNTS = (
    "--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true",
    "--set", 'initAuthenticationUser={"username":"admin","password":"top secret"}',
)  # fmt: skip
PLAIN_ACL = """\
accounts:
- accessKey: dave-of-old
  secretKey: "12345678"
  whiteRemoteAddress: 10.0.0.9
  topicPerms: [orders=PUB]
"""
LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER
PAGE = DOCS / "command-line.md"
# Commands that start something, or write files that others read.
WITHOUT_DATA = {
    "standalone", "namesrv", "broker", "controller", "takeover", "demo cluster", "completion",
    "setup security", "spark shell", "console", "bench omb",
    "generate systemd", "generate compose", "generate k8s", "generate helm", "generate grafana",
}  # fmt: skip
# Commands that print the same as another one.
SAME = {
    f"cluster {doing} {verb}": f"cluster {doing} drain"
    for doing in ("plan", "apply") for verb in ("add", "undrain", "remove", "replace")
} | {"bench batch": "bench producer", "bench latency": "bench producer"}  # fmt: skip
# These need a controller, or would take the shards of the broker away from the other tests.
ELSEWHERE = {"replica add BROKER", "replica promote BROKER ID", "replica remove BROKER ID",
             "broker restart SHARD", "broker shrink"}  # fmt: skip


def leaves(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that can be called, by the words it is called with."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    if command.invoke_without_command:
        yield path, command
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, f"{path} {name}".strip())


LEAVES = dict(leaves(cli))
SHOWING = {name for name, command in LEAVES.items() if name not in WITHOUT_DATA}


@pytest.mark.parametrize("name", LEAVES)
def test_what_shows_something_has_the_option(name: str) -> None:
    options = {option for each in LEAVES[name].params for option in each.opts}
    assert ("-o" in options) == ("--json" in options) == (name in SHOWING), name


# ---- the page


@dataclass(frozen=True)
class Documented:
    shape: str  # object | array | lines
    keys: frozenset[str]
    optional: frozenset[str]


def documented() -> dict[str, Documented]:
    """Command line (without rmq) -> what the page says of its JSON."""
    found = {}
    for line in PAGE.read_text().splitlines():
        row = re.fullmatch(r"\| `rmq ([^`]+)` \| (object|array|lines) \| (.*) \|", line)
        if row is None:
            continue
        keys, optional = set(), set()
        for text in re.findall(r"`([a-z_{][a-z0-9_.\[\]{}]*\*?\??)`", row[3]):
            key = text.removesuffix("?").removesuffix("*")
            both = {key, f"{key}_ms"} if "*" in text else {key}
            keys |= both
            optional |= both if text.endswith("?") else set()
        found[row[1]] = Documented(row[2], frozenset(keys), frozenset(optional))
    return found


TABLE = documented()


def paths(value: Any, keys: frozenset[str], path: str = "") -> Iterator[str]:
    """The paths of all members, as the page writes them: a.b; a[].b in arrays; a{}.b in objects
    whose keys are names of things."""
    if isinstance(value, dict) and any(each.startswith(f"{path}{{}}") for each in keys):
        if not value:
            yield f"{path}{{}}"
        for each in value.values():
            yield from paths(each, keys, f"{path}{{}}")
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from paths(each, keys, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        if not value:
            yield f"{path}[]"
        for each in value:
            yield from paths(each, keys, f"{path}[]")
    else:
        yield path


def check_keys(values: list[Any], wanted: Documented) -> None:
    found = {path for value in values for path in paths(value, wanted.keys)}
    empty = {path for path in found if path.endswith(("[]", "{}"))}
    unseen = {key for key in wanted.keys - found if not any(map(key.startswith, empty))}
    assert {path for path in found - wanted.keys
            if not any(key.startswith(path) for key in wanted.keys)} == set()  # fmt: skip
    assert unseen - wanted.optional == set()


# ---- the broker


@dataclass
class World:
    namesrv: str
    store: Path
    sent: dict[str, Any]  # the message that is looked for
    traced: str  # id
    folder: Path
    image: StoreImage  # a store of files


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("forms")
    account = {"access_key": "admin", "secret_key": "top secret"}
    environment = {
        "RMQ_ACCESS_KEY": "admin", "RMQ_SECRET_KEY": "top secret",
        "RMQ_NEW_PASSWORD": "wonderland", "XDG_CONFIG_HOME": str(folder / "config"),
    }  # fmt: skip
    options = (*ACCOUNTS, "--set", f"rmqAuditLog={folder / 'audit.log'}")
    with patch.dict(os.environ, environment), sharded_broker(folder, 2, options) as broker:
        os.environ["NAMESRV_ADDR"] = broker.namesrv
        given = {"namesrv_addr": broker.namesrv, **account}
        made = populated(broker, folder, given)
        with PushConsumer("ill", lambda *_: None, **given) as consumer:
            consumer.subscribe("orders")
            wait_until(lambda: '"client_id"' in done("group", "describe", "ill", "--json"))
            yield made


def populated(broker: ShardedBroker, folder: Path, given: dict[str, Any]) -> World:
    for name in ("orders", "given-up", "bench"):
        done("topic", "create", name, "--queues", "2")
        until_routed(broker.namesrv, name, {"broker-a": 2, "broker-a-1": 2})
    done("user", "create", "alice")
    done("acl", "allow", "alice", "Topic:orders", "-a", "Pub", "--from", "10.0.0.1")
    done("send", "orders", "a", "b", "c", "--sharding-key", "eu", "--keys", "k", "--tag", "t", "-q")
    sent = json.loads(done("send", "orders", "hello", "--keys", "seven", "--tag", "paid", "--json"))
    with Producer("tracer", enable_trace=True, **given) as producer:
        traced = str(producer.send(Message("orders", "traced")).message_id)
    with Admin(**given) as admin:
        admin.create_group("other")
        admin.create_group("gone")
    done("topic", "create", "gone", "--queues", "2")
    done("user", "create", "carol")
    (folder / "plain_acl.yml").write_text(PLAIN_ACL)
    (folder / "rows.jsonl").write_text('{"body":"45 EUR"}\n')

    def give_up(messages: list[Any], context: Any) -> Any:
        context.delay_level_when_next_consume = -1
        return LATER

    done("send", "given-up", "x", "--sharding-key", "eu", "-q")
    with PushConsumer("ill", give_up, consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                      **given) as consumer:  # fmt: skip
        consumer.subscribe("given-up")
        wait_until(lambda: '"dead_letters":1' in done("dlq", "list", "--json"))
    done("context", "add", "here", "-n", broker.namesrv)
    wait_until(lambda: rmq("trace", traced).returncode == 0)
    wait_until(lambda: rmq("message", "show", sent["message_id"], "orders").returncode == 0)
    image = StoreImage(folder / "image").add_many(600)
    image.write_log().write_queues().checkpoint_at(600, queue_count=6)
    return World(broker.namesrv, broker.store, sent, traced, folder, image)


def done(*words: str) -> str:
    result = rmq(*words)
    assert result.returncode == 0, (words, result.stdout, result.stderr)
    return result.stdout


Calls = dict[str, tuple[list[str], set[int]]]


@pytest.fixture(scope="module")
def calls(world: World) -> Calls:
    """{command line of the page: the words to call it with, the exit codes that are no failure}"""
    sent, store, folder, image = world.sent, str(world.store), world.folder, str(world.image.root)
    queue = world.image.queue_directory / "topic-0" / "0" / f"{0:020d}"
    (one, _) = (row["address"] for row in json.loads(done("cluster", "list", "--json")))
    bench = ["-t", "bench", "--count", "20", "--warmup", "0", "-d", "0.05", "--broker", one]
    drain = ["broker-a-1", "--wait", "0", "--quiet", "0"]
    dry = ["ill", "given-up", "--dry-run"]
    backup = str(folder / "backup")
    more = {
        "topic describe NAME": ["orders"],
        "topic perm NAME": ["orders"],
        "group describe NAME": ["ill"],
        "group create NAME": ["made", "--if-not-exists"],
        "group update NAME": ["other", "--max-retries", "9"],
        "group member NAME": ["ill"],
        "group reset NAME TOPIC": [*dry, "--to", "first"],
        "group skip NAME TOPIC": dry,
        "group clone NAME OTHER TOPIC": ["ill", "other", "given-up", "--dry-run"],
        "broker status --pools": ["--pools"],
        "broker shards": ["--store", store],
        "cluster plan drain BROKER": ["broker-a-1"],
        "cluster apply drain BROKER": [*drain, "--yes"],
        "replica status": ["broker-a"],
        "top": ["--once", "--interval", "0.2"],
        "check brokers": ["--disk-warning", "0", "--disk-critical", "101"],
        "check group NAME": ["ill"],
        "store check DIR": [image],
        "store dump DIR": [image],
        "store dump LOG": [str(world.image.segment_path(0)), "--bodies"],
        "store dump QUEUE": [str(queue)],
        "store dump CHECKPOINT": [f"{image}/checkpoint"],
        "store backup --to DIR": ["--store", image, "--to", backup],
        "store backup --check DIR": ["--check", backup],
        "store restore": ["--from", backup, "--store", str(folder / "restored")],
        "send TOPIC BODY": ["orders", "more"],
        "consume TOPIC": ["orders"],
        "dlq show GROUP": ["ill"],
        "config get": ["brokerName"],
        "config set KEY=VALUE": ["fileReservedTime=49", "--yes"],
        "config diff": ["--all"],
        "message query": ["orders", "--key", "seven"],
        "message show ID": [sent["message_id"], "orders"],
        "message direct ID GROUP": [sent["message_id"], "ill", "--topic", "orders"],
        "message resend ID": [sent["message_id"], "orders", "--yes"],
        "trace ID": [world.traced],
        "context show": ["here"],
        "debug bundle": ["--to", str(folder / "bundle.tar.gz")],
        "bench producer": bench,
        "bench pop": bench,
        "bench consumer": bench,
        "bench pingpong": ["-d", "0.05"],
        **changes(world),
    }
    codes = {"check machine": {0, 1, 2}, "check brokers": {1}, "check group NAME": {1},
             "config diff": {1}, "cluster apply drain BROKER": {0, 1}}  # fmt: skip
    return {
        line: ([*path_of(line).split(), *more.get(line, [])], codes.get(line, {0}))
        for line in TABLE if line not in ELSEWHERE
    }  # fmt: skip


def changes(world: World) -> dict[str, list[str]]:
    """Each is called once, in the order of the page."""
    dead = str(world.folder / "dead.jsonl")
    some, entry = str(world.folder / "some.parquet"), ["alice", "Topic:x", "-a", "Pub,Sub"]
    return {
        "topic create NAME": ["made"],
        "topic update NAME": ["given-up", "--queues", "2"],
        "topic copy SOURCE COPY": ["orders", "copied", "--messages", "--yes"],
        "topic delete NAME": ["gone", "--yes"],
        "group delete NAME": ["gone", "--yes"],
        "user create NAME": ["bob", "--generate"],
        "user update NAME": ["bob", "--generate", "--disable"],
        "user delete NAME": ["carol", "--yes"],
        "acl allow NAME RESOURCE": [*entry, "--from", "10.0.0.1"],
        "acl deny NAME RESOURCE": [*entry, "--from", "10.0.0.1"],
        "acl delete NAME": ["alice", "Topic:x"],
        "acl import FILE": [str(world.folder / "plain_acl.yml")],
        "broker drain SHARD": ["1", "--undo", "--store", str(world.store)],
        "dlq resend GROUP": ["ill", "--dry-run"],
        "dlq dismiss GROUP": ["ill", "--dry-run"],
        "dlq export GROUP FILE": ["ill", dead],
        "export TOPIC FILE": ["orders", some],
        "import FILE TOPIC": [str(world.folder / "rows.jsonl"), "bench"],
        "context add NAME": ["there", "-n", "127.0.0.1:1"],
        "context use NAME": ["here"],
        "context remove NAME": ["there"],
    }


def path_of(line: str) -> str:
    """The command of a line of the page."""
    return max((each for each in LEAVES if f"{line} ".startswith(f"{each} ")), key=len)


def test_the_page_has_every_command_that_shows_something() -> None:
    assert {path_of(line) for line in TABLE} | SAME.keys() == SHOWING
    assert set(SAME.values()) <= {path_of(line) for line in TABLE}


def test_those_that_print_the_same_do_it_by_the_same_code() -> None:
    for name, other in SAME.items():
        callbacks = [LEAVES[each].callback for each in (name, other)]
        assert len({each and each.__module__ for each in callbacks}) == 1


@pytest.mark.parametrize("line", [each for each in TABLE if each not in ELSEWHERE])
def test_json_has_the_keys_of_the_page(line: str, calls: Calls) -> None:
    words, codes = calls[line]
    if line == "store backup --check DIR" or line == "store restore":
        rmq(*calls["store backup --to DIR"][0])
    result = rmq(*words, "-o", "json")
    assert result.returncode in codes, result.stdout + result.stderr
    wanted = TABLE[line]
    values = [json.loads(each) for each in result.stdout.splitlines()]
    if wanted.shape != "lines":
        assert len(values) == 1 and isinstance(values[0], list) == (wanted.shape == "array")
    rows = [row for value in values for row in (value if isinstance(value, list) else [value])]
    assert rows and all(isinstance(row, dict) for row in rows)
    check_keys(rows, wanted)


# ---- other forms


@pytest.mark.parametrize(
    "words",
    [("topic", "list"), ("group", "describe", "ill"), ("config", "get", "brokerName"),
     ("consume", "orders", "--tag", "paid"), ("acl", "list")],
)  # fmt: skip
def test_yaml_says_what_json_says(world: World, words: tuple[str, ...]) -> None:
    yaml = pytest.importorskip("yaml")
    plain = [json.loads(line) for line in done(*words, "-o", "json").splitlines()]
    found = list(yaml.safe_load_all(done(*words, "-o", "yaml")))
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, plain)) and plain


def test_without_yaml_the_extra_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)  # as if it were not installed
    result = rmq("topic", "list", "-o", "yaml")
    assert result.returncode == 2 and "pip install 'rmq[yaml]'" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (("topic", "list"), {"PERM"}),
        (("group", "list"), {"CONSUMES BY"}),
        (("cluster", "list"), {"STARTED"}),
        (("broker", "status"), {"CPU", "PROBLEM"}),
        (("message", "query", "orders", "--key", "seven"), {"BORN HOST", "OFFSET ID"}),
        (("dlq", "show", "ill"), {"RETRIES"}),
    ],
)
def test_wide_shows_more(world: World, words: tuple[str, ...], more: set[str]) -> None:
    table, wide = done(*words).splitlines(), done(*words, "-o", "wide").splitlines()
    assert len(table) == len(wide)
    for heading in more:
        assert heading in wide[0] and heading not in table[0]
    assert set(table[0].split()) <= set(wide[0].split())


def test_the_last_of_two_options_counts(world: World) -> None:
    assert json.loads(done("topic", "list", "-o", "table", "--json"))
    assert done("topic", "list", "--json", "-o", "table").startswith("TOPIC ")


@pytest.mark.parametrize(
    ("words", "answer", "error"),
    [
        (("topic", "describe", "none"), "", {"exit_code": 1, "code": 17}),
        (("topic", "describe", "none", "-o", "json"), "", {"exit_code": 1, "code": 17}),
        (("topic", "list", "-n", "127.0.0.1:1"), "", {"exit_code": 3, "code": None}),
        (("topic", "lost"), "", {"exit_code": 2, "code": None}),
        (("topics",), "", {"exit_code": 2, "code": None}),
        (("topic", "list", "--nothing"), "", {"exit_code": 2, "hint": "see rmq topic list --help"}),
        (("group", "skip", "ill", "given-up"), "n\n", {"exit_code": 1, "hint": None}),
        (("context", "show", "none"), "", {"exit_code": 2, "code": None}),
        (("context", "remove", "none"), "", {"exit_code": 2, "code": None}),
        (("topic", "delete", "none"), "", {"exit_code": 1, "code": 17}),
        (("topic", "delete", "orders"), "n\n", {"exit_code": 1, "hint": None}),
        (("user", "delete", "nobody", "--yes"), "", {"exit_code": 1, "code": None}),
    ],
)
def test_errors_are_json_too(
    world: World, words: tuple[str, ...], answer: str, error: dict[str, Any]
) -> None:
    result = rmq(*words, "--json", text=answer)
    told = json.loads(result.stderr.splitlines()[-1])
    assert told.keys() == {"error", "hint", "exit_code", "code"} and told["error"]
    assert result.returncode == told["exit_code"] and result.stdout == ""
    assert error.items() <= told.items()


def test_errors_are_text_where_no_json_is_asked_for(world: World) -> None:
    for words in (("send", "none", "--", "--json", "-o", "json"), ("topic", "describe", "none")):
        result = rmq(*words, "-n", "127.0.0.1:1") if "--" not in words else (
            rmq(words[0], "-n", "127.0.0.1:1", *words[1:]))  # fmt: skip
        assert result.returncode == 3 and result.stderr.startswith("rmq: ")
