"""Generated files as they are printed and written. Method: `rmq generate` into real folders."""

import json
from pathlib import Path

import pytest
from support.command_line import rmq

from rmq.errors import ConfigError
from rmq.generate import template
from rmq.generate.output import GeneratedFile, shown, write

OUTSIDE = ("compose", "--address", "10.0.0.5")
SECRETS = ("servers.env", "admin.json", "metrics-password", ".gitignore")


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o777
            for path in folder.rglob("*") if path.is_file()}  # fmt: skip


def test_all_files_are_printed_or_one() -> None:
    done = rmq("generate", "systemd")
    assert done.returncode == 0, done.stderr
    names = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("==> ")]
    assert names == [
        "rmq-broker.service", "rmq-namesrv.service", "rmq-controller.service",
        "rmq-console.service", "broker.conf", "namesrv.conf", "controller.conf", "console.conf",
    ]  # fmt: skip
    for name in names:
        alone = rmq("generate", "systemd", name)
        assert alone.returncode == 0 and alone.stdout in done.stdout
    single = rmq("generate", "k8s", "--image", "rmq")
    assert single.stdout.startswith("# Name servers, brokers and"), "one file: kubectl reads it"


def test_a_folder_is_written_once_and_other_files_stay(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    done = rmq("generate", "grafana", "--out", str(folder))
    assert done.stdout == f"{folder}: rmq-dashboard.json, rmq-alerts.yml\n"
    again = rmq("generate", "grafana", "--out", str(folder))
    assert again.stdout == f"{folder}: all files are there already\n"
    mine = folder / "rmq-alerts.yml"
    mine.write_text("groups: []\n")
    done = rmq("generate", "grafana", "--out", str(folder))
    assert done.returncode == 2 and "rmq-alerts.yml" in done.stderr
    assert mine.read_text() == "groups: []\n"
    done = rmq("generate", "grafana", "--out", str(folder), "--overwrite")
    assert done.stdout == f"{folder}: rmq-alerts.yml\n"
    assert "RmqDown" in mine.read_text()


def test_passwords_are_printed_nowhere_and_stay_as_they_are(tmp_path: Path) -> None:
    printed = rmq("generate", *OUTSIDE)
    assert printed.returncode == 0 and "servers.env <==" not in printed.stdout
    written = rmq("generate", *OUTSIDE, "--out", str(tmp_path))
    assert written.returncode == 0, written.stderr
    folder = tmp_path / "accounts"
    assert folder.stat().st_mode & 0o777 == 0o700
    found = modes(folder)
    # Because Prometheus in its container is another user.
    assert found.pop("metrics-password") == 0o644
    assert set(found.values()) == {0o600}
    password = json.loads((folder / "admin.json").read_text())["password"]
    assert len(password) >= 32
    public = "".join(path.read_text() for path in tmp_path.iterdir() if path.is_file())
    assert password not in public + printed.stdout + written.stdout
    before = {name: (folder / name).read_text() for name in SECRETS}
    again = rmq("generate", *OUTSIDE, "--out", str(tmp_path), "--overwrite")
    assert again.stdout == f"{tmp_path}: all files are there already\n"
    assert {name: (folder / name).read_text() for name in SECRETS} == before
    (folder / "servers.env").unlink()
    done = rmq("generate", *OUTSIDE, "--out", str(tmp_path))
    assert done.returncode == 2 and "accounts/servers.env" in done.stderr
    assert not (folder / "servers.env").exists(), "with another password than admin.json"


def test_passwords_are_others_each_time(tmp_path: Path) -> None:
    seen = set()
    for at in "ab":
        done = rmq("generate", "k8s", "--image", "rmq", "--out", str(tmp_path / at))
        assert done.returncode == 0, done.stderr
        secret = json.loads((tmp_path / at / "accounts" / "secret.json").read_text())
        seen |= set(secret["stringData"].values())
    assert len(seen) == 4


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    files = [GeneratedFile("a.conf", "x\n")]
    with pytest.raises(ConfigError, match="file"):
        write(files, tmp_path / "file", overwrite=False)


def test_what_is_secret_is_never_shown() -> None:
    files = [GeneratedFile("a", "open\n"), GeneratedFile("b", "secret\n", is_secret=True)]
    assert shown(files) == "open\n"
    with pytest.raises(ConfigError, match="no file b"):
        shown(files, "b")


def test_places_take_lines_are_indented_and_go_when_they_are_empty() -> None:
    values = {"config": "/etc/rmq", "access": "one\n  two\n\nthree\n"}
    lines = template.filled("namesrv.conf", values).splitlines()
    assert lines[0].startswith("# /etc/rmq/namesrv.conf")
    assert lines[2:6] == ["one", "  two", "", "three"]
    assert "listenPort=9876\nkvConfigPath" in template.filled("namesrv.conf",
                                                              {**values, "access": ""})  # fmt: skip
    with pytest.raises(KeyError, match="access"):
        template.filled("namesrv.conf", {"config": "/etc/rmq"})
