"""The examples of README and guides are true: each shell line and each block of code is run.

Lines that start something or install it are checked by their options instead (they run elsewhere in
the tests); everything else runs in order against one broker. The Java program is only looked at:
the compatibility tests run programs like it.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.broker_process import broker_process
from support.forked_commands import run_rmq
from support.pages import BLOCK, EXAMPLES, blocks, pipeline
from support.source_tree import ROOT
from support.waiting import HANG_S

from rmq import Message, Producer
from rmq.cli.main import cli

SERVERS = {"standalone", "broker", "namesrv"}


def shell_lines() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line.strip()]


def pipelines() -> list[list[list[str]]]:
    """The lines of rmq: for each the arguments of its commands."""
    found = [pipeline(line) for line in shell_lines() if line.startswith("rmq ")]
    assert all(command[0] == "rmq" for commands in found for command in commands)
    return [[command[1:] for command in commands] for commands in found]


def rmq_commands() -> list[list[str]]:
    return [command for commands in pipelines() for command in commands]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    options = ["--set", "recallMessageEnable=true"]  # as the text says
    with broker_process(tmp_path_factory.mktemp("readme"), options) as broker:
        yield {**os.environ, "NAMESRV_ADDR": broker.namesrv}


def test_shell_blocks_hold_only_commands_that_are_checked() -> None:
    known = {"make", "pip", "rmq"}
    assert {line.split()[0] for line in shell_lines()} <= known
    for line in shell_lines():
        if line.startswith("make "):
            assert line.split()[1] in make_targets()


@pytest.mark.parametrize("arguments", rmq_commands(), ids=" ".join)
def test_options_of_every_command_exist(arguments: list[str], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broker.conf").write_text("brokerName=broker-a\n")
    command: click.Command = cli
    context = click.Context(cli, info_name="rmq")
    while isinstance(command, click.Group):
        if command.invoke_without_command and arguments[0].startswith("-"):
            break  # `rmq broker -c ..` runs one, `rmq broker status` asks one
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    command.make_context(command.name, list(arguments))


def test_commands_run_in_order_against_a_broker(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", environment["NAMESRV_ADDR"])
    for commands in pipelines():
        first = commands[0]
        if first[0] in SERVERS and first[1:2] != ["status"]:
            continue
        if first[0] == "bench":  # a run as short as shown needs both cores all the time
            first += ["-n", environment["NAMESRV_ADDR"], "--duration", "0.2"]
        line = " | ".join(shlex.join([sys.executable, "-m", "rmq", *each]) for each in commands)
        if len(commands) == 1:
            done = run_rmq(*first)
        else:
            done = subprocess.run(
                ["/bin/bash", "-o", "pipefail", "-c", line],
                env=environment, capture_output=True, text=True, timeout=HANG_S,
            )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


# What blocks with these groups print, beside a greeting.
SAID = {
    "readme-steps": str([f"hello from Python: {each}" for each in
                         ("created", "created", "paid", "sent")]),
    "readme-dead": "hello from Python tried at [0, 1, 2] of charges",
    "readme-bargains": "['hello from Python for 50']",
    "readme-payers": "['hello from Python 1', 'hello from Python 2']",
}  # fmt: skip


@pytest.fixture(scope="module")
def greeted(environment: dict[str, str]) -> None:
    """Blocks that only read find a message, whichever blocks ran before them."""
    with Producer("readme-greeter", namesrv_addr=environment["NAMESRV_ADDR"]) as producer:
        producer.send(Message("greetings", b"hello from Python", tags="python"))


@pytest.mark.usefixtures("greeted")
@pytest.mark.parametrize("text", blocks("python"))
def test_python_blocks_run(text: str, environment: dict[str, str]) -> None:
    text = text.replace("127.0.0.1:9876", environment["NAMESRV_ADDR"])
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True,
        timeout=HANG_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "hello from Python" in done.stdout
    for group, said in SAID.items():
        assert group not in text or said in done.stdout


KINDS = {
    "normal": r"producer\.send\(Message\([^)]*\)\)",
    "asynchronous": r"send_async\(",
    "one-way": r"send_oneway\(",
    "batch": r"send_batch\(",
    "ordered": r"sharding_key=.*consume_orderly=True",
    "delayed by a level": r"delay_level=",
    "timed": r"deliver_at=",
    "recalled": r"producer\.recall\(",
    "transactional": r"send_in_transaction\(",
    "request and reply": r"producer\.reply\(.*producer\.request\(",
    "broadcast": r'message_model="BROADCASTING"',
    "filtered by tags": r'subscribe\("\w+", "\w+ \|\| \w+"\)',
    "filtered by SQL92": r'^    consumer\.subscribe\("\w+", sql=',
    "retried, and a dead letter": r"max_reconsume_times=2.*%DLQ%",
    "popped": r"PopConsumer\(.*consumer\.ack\(",
    "pulled": r"PullConsumer\(.*\.poll\(.*seek_to_begin\(",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_message_has_an_example_that_runs(kind: str) -> None:
    pattern = re.compile(KINDS[kind], re.DOTALL | re.MULTILINE)
    assert any(pattern.search(block) for block in blocks("python"))


def test_java_block_talks_to_the_address_that_is_served() -> None:
    (program,) = blocks("java")
    assert 'setNamesrvAddr("127.0.0.1:9876")' in program
    assert program.count("{") == program.count("}")


# This file runs the blocks. Those marked py are run elsewhere: of README and the Spark guide in
# tests/spark, of operations in tests/unit/filters and tests/unit/offline. A block that only shows
# something is marked `text`.
LANGUAGES = {"sh", "python", "java", "py", "text"}


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.name)
def test_every_block_is_of_a_kind_that_a_test_runs(page: Path) -> None:
    kinds = [kind for kind, _ in BLOCK.findall(page.read_text())]
    assert set(kinds) <= LANGUAGES
    assert page.read_text().count("\n```") == 2 * len(kinds)
    if "py" in kinds:
        assert (page.name, kinds.count("py")) in {
            ("README.md", 1), ("spark-guide.md", 1), ("operations.md", 2),
        }  # fmt: skip
