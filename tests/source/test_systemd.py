"""The systemd units and settings that `rmq generate systemd` makes can be used as they are."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.waiting import HANG_S

from rmq.cli.addresses import settle_addresses
from rmq.cli.main import cli
from rmq.config import load_properties
from rmq.generate.systemd import systemd_files

MADE = {file.name: file.text for file in systemd_files("/opt/rmq", "rmq", "/etc/rmq")}
UNITS = sorted(name for name in MADE if name.endswith(".service"))
SETTLED = ("broker", "controller", "namesrv")  # by a file of RocketMQ's keys


def parsed(name: str) -> configparser.RawConfigParser:
    unit = configparser.RawConfigParser(strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(MADE[name])
    return unit


def test_there_is_a_unit_for_each_server() -> None:
    servers = ("broker", "console", *SETTLED[1:])
    assert [f"rmq-{server}.service" for server in servers] == UNITS


def help_of(command: str) -> str:
    done = CliRunner().invoke(cli, [command, "--help"])
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("server", SETTLED)
def test_a_unit_runs_a_command_that_exists_on_a_file_that_is_here(server: str) -> None:
    words = shlex.split(parsed(f"rmq-{server}.service")["Service"]["ExecStart"])
    assert words[0] == "/opt/rmq/bin/rmq"
    assert Path(words[words.index("-c") + 1]).name in MADE
    said = help_of(words[1])
    assert "-c FILE" in said
    for option in words[2:]:
        assert not option.startswith("--") or option in said


@pytest.mark.parametrize("name", UNITS)
def test_who_runs_it_and_when_it_is_started_again(name: str) -> None:
    service = parsed(name)["Service"]
    assert (service["User"], service["Type"]) == ("rmq", "notify")
    assert service["Restart"] == "on-failure"


def test_the_consoles_options_and_variables_are_those_of_its_command() -> None:
    service = parsed("rmq-console.service")["Service"]
    assert service["ExecStart"] == "/opt/rmq/bin/rmq console $CONSOLE_OPTIONS"
    assert service["EnvironmentFile"] == "/etc/rmq/console.conf"
    lines = [line.removeprefix("#") for line in MADE["console.conf"].splitlines()]
    said, options, variables = help_of("console"), 0, 0
    for name, _, value in (line.partition("=") for line in lines if re.match("[A-Z_]+=", line)):
        if name == "CONSOLE_OPTIONS":
            given = [word for word in value.split() if word.startswith("--")]
            assert all(word in said for word in given), given
            options += len(given)
        else:
            assert name in said, name
            variables += 1
    assert options > 3 and variables == 4
    given = [line for line in MADE["console.conf"].splitlines() if not line.startswith("#")]
    assert given == ["NAMESRV_ADDR=127.0.0.1:9876", "CONSOLE_OPTIONS="], "on this machine alone"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_the_unit(name: str, tmp_path: Path) -> None:
    for unit in UNITS:
        (tmp_path / unit).write_text(MADE[unit].replace("/opt/rmq/bin/rmq", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)],
        capture_output=True, text=True, timeout=HANG_S,
    )  # fmt: skip
    told = [line for line in done.stderr.splitlines() if "rmq-" in line]
    assert told == []
    assert done.returncode == 0, done.stderr


# System calls that the compiled half and Python make, beside reading, writing and sockets.
CALLS = ("accept4", "cachestat", "copy_file_range", "epoll_wait", "eventfd2", "fadvise64",
         "fallocate", "fdatasync", "flock", "madvise", "mbind", "memfd_create", "mincore", "mlock2",
         "preadv2", "pwritev", "sched_setaffinity", "set_mempolicy", "timerfd_create")  # fmt: skip


def calls_of(names: str) -> set[str]:
    """System calls that these names of SystemCallFilter= let through."""
    found = set(names.split())
    for group in [name for name in found if name.startswith("@")]:
        done = subprocess.run(
            ["systemd-analyze", "syscall-filter", group], capture_output=True, text=True,
            check=True, timeout=HANG_S,
        )  # fmt: skip
        lines = [line.strip() for line in done.stdout.splitlines()[1:]]
        found |= calls_of(" ".join(line for line in lines if line and not line.startswith("#")))
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("name", UNITS)
def test_no_call_that_is_made_is_filtered(name: str) -> None:
    service = parsed(name)["Service"]
    assert set(CALLS) <= calls_of(service["SystemCallFilter"])
    assert service["SystemCallErrorNumber"] == "EPERM", "what is forgotten fails, and kills nothing"


# Each of these keeps an intruder who has taken over the server from something.
HARDENED = {
    "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "LimitCORE": "0", "UMask": "0027",
    "ProtectSystem": "strict", "ProtectHome": "yes", "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes", "ProtectKernelLogs": "yes", "ProtectControlGroups": "yes",
    "ProtectClock": "yes", "ProtectHostname": "yes", "PrivateTmp": "yes", "PrivateDevices": "yes",
    "PrivateMounts": "yes", "RestrictSUIDSGID": "yes", "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes", "LockPersonality": "yes", "SystemCallArchitectures": "native",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
}  # fmt: skip
REFUSED = {
    "mount",
    "ptrace",
    "reboot",
    "init_module",
    "kexec_load",
    "bpf",
    "settimeofday",
    "swapon",
}


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_gives_up_what_a_server_does_not_need(name: str) -> None:
    service = parsed(name)["Service"]
    assert {key: service.get(key) for key in HARDENED} == HARDENED
    assert "AmbientCapabilities" not in service


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_little_that_is_open(name: str, tmp_path: Path) -> None:
    """The exposure is less than 2 of 10, as docs/security.md says."""
    assert calls_of(parsed(name)["Service"]["SystemCallFilter"]).isdisjoint(REFUSED)
    (tmp_path / name).write_text(MADE[name].replace("/opt/rmq/bin/rmq", "/bin/true"))
    words = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager"]
    done = subprocess.run(
        [*words, str(tmp_path / name)], capture_output=True, text=True, timeout=HANG_S
    )
    if "offline" in done.stderr:
        pytest.skip("an older systemd, which judges no unit that is not loaded")
    assert done.returncode == 0, done.stdout[-200:] + done.stderr
    assert "Overall exposure level" in done.stdout


def test_the_samples_load_listen_here_only_and_every_key_does_something(tmp_path: Path) -> None:
    for name in (f"{server}.conf" for server in SETTLED):
        (tmp_path / name).write_text(MADE[name])
        settings = load_properties(tmp_path / name, server=name.removesuffix(".conf"))
        settle_addresses(settings, insecure=False)
        assert settings.without_effect() == []
        assert settings.bindAddress == "127.0.0.1"
    broker = load_properties(tmp_path / "broker.conf")
    assert Path(broker.storePathRootDir).is_relative_to("/var/lib/rmq")
    assert broker.metricsExporterType == "PROM"


def test_places_users_and_folders_are_where_they_are_said() -> None:
    made = {file.name: file.text for file in systemd_files("/srv/rmq", "bus", "/etc/bus")}
    for name in UNITS:
        assert "/opt/rmq" not in made[name] and "/etc/rmq" not in made[name]
        assert "ExecStart=/srv/rmq/bin/rmq " in made[name]
        assert re.search(r"^(ExecStart=.* -c |EnvironmentFile=)/etc/bus/", made[name], re.MULTILINE)
        assert "User=bus\nGroup=bus\n" in made[name]
