"""The root of the command line: quick help, examples that are true, and mistakes that are answered
with a way out."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest
from click.testing import CliRunner
from support.calm_clock import calm_seconds

from rmq import config_table
from rmq.cli.main import COMMANDS, cli, main
from rmq.cli.server import ARMED


def test_help_lists_every_command_without_importing_one() -> None:
    script = (
        "import sys; from rmq.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'msgspec', 'numpy', 'rich', 'asyncio', 'zmq', 'rmq.config', 'rmq.cli.server'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "loaded: []" in done.stdout
    for name, row in COMMANDS.items():
        assert name in done.stdout
        assert row[2] in done.stdout


def test_asking_brokers_how_they_are_loads_no_numpy() -> None:
    """These commands must not import numpy, which takes more than twice the time of everything
    else."""
    script = (
        "import sys, rmq.cli.status, rmq.cli.top, rmq.cli.shards\n"
        "print('loaded:', sorted({'numpy', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "loaded: []" in done.stdout


def test_help_takes_less_than_a_tenth_of_a_second() -> None:
    """Help must be fast in one of ten runs. CPU time would miss waits, and the wall time of a
    single run depends on other processes, so the time that the process waits for a processor is
    left out."""
    taken = []
    for _ in range(10):
        bare = _bare_python()
        start = calm_seconds()
        subprocess.run([sys.executable, "-m", "rmq", "--help"], capture_output=True, check=True)
        taken.append((calm_seconds() - start, bare))
        if taken[-1][0] < max(0.1, 3 * bare):
            return
    pytest.fail(f"help and a bare Python, in seconds: {taken}")


def _bare_python() -> float:
    start = calm_seconds()
    subprocess.run([sys.executable, "-c", "import click"], check=True)
    return calm_seconds() - start


@pytest.mark.parametrize("words", [["--help"], ["topic", "--help"], ["spark", "options"]])
def test_a_reader_that_has_gone_is_no_error(words: list[str]) -> None:
    """With pipefail, `rmq .. | head` must end without an error."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "rmq", *words], stdout=writing,
                          stderr=subprocess.PIPE, text=True)  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_who_is_interrupted_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rmq.client.blocking.cluster.ClusterView.topics", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["topic", "list", "--all"])
    assert ended.value.code == 130


def test_so_does_who_is_interrupted_at_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rmq.client.blocking.cluster.ClusterView.route", lambda *_: None)
    monkeypatch.setattr("click.termui.visible_prompt_func", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["topic", "delete", "orders"])
    assert ended.value.code == 130


@pytest.mark.parametrize("name", COMMANDS)
def test_one_line_help_is_what_the_command_says(name: str) -> None:
    module, _, text = COMMANDS[name]
    if find_spec(module) is None:
        pytest.skip(f"{module} is not there yet")
    command = cli.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    assert command.get_short_help_str(limit=200) == text.rstrip() or (
        (command.help or "").splitlines()[0] == text
    )


def test_unknown_command_suggests_the_near_one() -> None:
    result = CliRunner().invoke(cli, ["topics"])
    assert result.exit_code == 2
    assert "no such command: topics. Did you mean topic?" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["topic", "list", "-n", "127.0.0.1:1"], 3, "Start one with `rmq standalone`"),
        (["topic", "list", "-n", "nonsense"], 2, "not an address of the form host:port"),
        (["-n", "127.0.0.1:1", "topic", "list"], 3, "127.0.0.1:1"),
        (["-n", "nonsense", "topic", "list"], 2, "not an address of the form host:port"),
        (["standalone", "--shards", "0"], 2, "auto, or a whole number from 1"),
        (["broker", "--shards", "many"], 2, "auto, or a whole number from 1"),
        (["standalone", "--bind", "0.0.0.0"], 2, "--insecure"),
        (["broker", "--set", "brokerIP1=10.0.0.1"], 2, "--insecure"),
        (["namesrv", "--bind", "10.0.0.1"], 2, "--insecure"),
        (["standalone", "--set", "flushDiskTyp=sync"], 2, "Did you mean flushDiskType?"),
        (["standalone", "--set", "nonsense"], 2, "not of the form key=value"),
        (["standalone", "--flush", "never"], 2, "'async'"),
        (["standalone", "-c", "/nowhere.conf"], 2, "does not exist"),
    ],
)
def test_mistakes_end_with_a_code_and_a_way_out(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == code
    assert text in capsys.readouterr().err


def test_name_servers_before_the_command_are_those_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Name servers before the command must win over the environment, and those after the command
    over both."""
    asked: list[str] = []

    class Asked(Exception):
        pass

    def ask(addresses: str, *_: object, **__: object) -> None:
        asked.append(addresses)
        raise Asked

    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:1")
    monkeypatch.setattr("rmq.cli.topic.Cluster", ask)
    runner = CliRunner()
    for words in (
        ["topic", "list"],
        ["-n", "10.0.0.2:2", "topic", "list"],
        ["-n", "10.0.0.2:2", "topic", "list", "-n", "10.0.0.3:3"],
        ["topic", "list"],
    ):
        assert isinstance(runner.invoke(cli, words).exception, Asked)
    assert asked == ["10.0.0.1:1", "10.0.0.2:2", "10.0.0.3:3", "10.0.0.1:1"]


def test_the_name_server_beside_a_broker_looks_at_who_comes_as_the_broker_does() -> None:
    of_name_servers = {row.key for row in config_table.NAMESRV}
    about_connections = {
        row.key for row in config_table.BROKER
        if row.key in of_name_servers and re.match("rmqProxy|rmq.*PerAddress", row.key)
    }  # fmt: skip
    assert "rmqProxyProtocol" in about_connections
    assert about_connections <= set(ARMED)
