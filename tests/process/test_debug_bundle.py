"""Goal: a bundle has what helps, is bounded, says what it has, and holds no secret of accounts, TLS
or the environment; if one part cannot be had, all others are there.

Method: a broker as `rmq setup security` makes it, with a user; its log and settings are searched
byte by byte for every secret there is. Then a plain broker with metrics, and no broker at all.
"""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from support.broker_process import broker_process
from support.command_line import rmq
from support.secured_broker import secured_broker

from rmq.demo.ports import free_port

SMALL = ("--set", "mappedFileSizeCommitLog=4194304")


def files_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        found = {}
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None and member.isfile()
            found[member.name.partition("/")[2]] = file.read()
    return found


def bundled(path: Path, *words: str) -> tuple[dict[str, bytes], dict[str, dict[str, Any]]]:
    """Makes a bundle. Returns its files, and what the command says about each of them."""
    done = rmq("debug", "bundle", "--to", str(path), *words, "-o", "json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["file"] == str(path)
    found, rows = files_of(path), {row["file"]: row for row in said["files"]}
    assert {name for name, row in rows.items() if row["bytes"]} == found.keys() - {"index.json"}
    assert all(len(content) == rows[name]["bytes"] for name, content in found.items()
               if name in rows)  # fmt: skip
    assert json.loads(found["index.json"]) == said["files"]
    return found, rows


def test_no_secret_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with secured_broker(tmp_path / "one") as secured:
        account = secured.folder / "admin.json"
        admin = json.loads(account.read_text())
        keys = [path for path in secured.folder.iterdir() if "PRIVATE KEY" in path.read_text()]
        assert keys
        config = secured.folder / "security.conf"
        log = tmp_path / "planted.log"
        log.write_text(
            f"user alice has {secured.password}\n{keys[0].read_text()}\n"
            f"signed by {admin['password']}\nRMQ_TLS_KEY_PASSWORD=tls-geheim\nall is well\n"
        )
        monkeypatch.setenv("RMQ_NEW_PASSWORD", "brand-new-one")
        log.write_text(log.read_text() + "the next is brand-new-one\n")
        with patch.dict("os.environ", secured.settings):
            found, rows = bundled(
                tmp_path / "bundle.tar.gz", "-c", str(config),
                "--set", "tls.server.keyPassword=pw12", "--store", str(secured.broker.store),
                "--log", str(log),
                "--log", str(secured.broker.log_path), "-n", secured.broker.namesrv,
            )  # fmt: skip
    secrets = {secured.password, admin["password"], "brand-new-one", "tls-geheim", "pw12"}
    for path in keys:
        secrets |= {line for line in path.read_text().splitlines() if "-----" not in line}
    everything = b"\n".join(found.values()).decode()
    assert not {secret for secret in secrets if secret in everything}
    assert "PRIVATE KEY" not in everything
    # What is no secret is in the bundle.
    assert "all is well" in found["logs/0-planted.log"].decode()
    assert "starts as process" in found["logs/1-" + secured.broker.log_path.name].decode()
    settings = json.loads(found["settings/broker-a-id0.json"])
    assert settings["settings"]["initAuthenticationUser"] == "******"
    assert settings["settings"]["tls.server.mode"] == "enforcing" and not settings["left_out"]
    assert json.loads(found["settings/file.json"])["tls.server.keyPassword"] == "******"
    (broker,) = json.loads(found["cluster/brokers.json"])
    assert broker["state"] == "running"
    (report,) = json.loads(found["store/check.json"]).values()
    assert report["problem_count"] == 0 and report["report"]["counts"]
    assert rows["store/parts.json"]["note"] is None


def test_what_runs_is_in_it_with_metrics_and_the_log(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "broker.log"
    prom = ("--set", "metricsExporterType=PROM", "--set", f"metricsPromExporterPort={port}")
    with broker_process(tmp_path, [*SMALL, *prom, "--log-file", str(log)]) as broker:
        assert rmq("topic", "create", "orders", "-n", broker.namesrv).returncode == 0
        assert rmq("send", "orders", "a", "b", "-n", broker.namesrv).returncode == 0
        found, _ = bundled(tmp_path / "b.tar.gz", "-n", broker.namesrv)
        assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600
        assert "rocketmq_messages_in_total" in found["metrics/broker-a-id0.txt"].decode()
        assert "starts as process" in found["logs/0-broker.log"].decode(), "rmqLogFile says where"
        routes = json.loads(found["cluster/routes.json"])
        assert routes["routes"]["orders"][0]["broker_name"] == "broker-a"
        assert "TOOLS_CONSUMER" in found["cluster/groups.json"].decode()
        assert json.loads(found["cluster/runtime-broker-a-id0.json"])["msgPutTotalTodayNow"] == "2"
        assert json.loads(found["versions.json"])["rmq"] in broker.log_path.read_text() + (
            log.read_text())  # fmt: skip
        text = rmq("debug", "bundle", "--to", str(tmp_path / "c.tar.gz"), "-n", broker.namesrv)
        assert "cluster/routes.json" in text.stdout and "Look through it" in text.stdout


def test_it_is_bounded_and_a_log_keeps_its_end(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    with log.open("w") as file:
        for number in range(200_000):
            file.write(f"line {number:>20}\n")
    found, rows = bundled(tmp_path / "b.tar.gz", "--log", str(log), "--log", str(log), "--max-mib",
                          "1", "-n", "127.0.0.1:1")  # fmt: skip
    assert sum(map(len, found.values())) < 1.1 * (1 << 20)
    assert found["logs/0-long.log"].decode().splitlines()[-1].split()[1] == "199999"
    assert re.fullmatch(r"cut: the last \d+ of \d+ bytes", rows["logs/0-long.log"]["note"])
    assert rows["logs/1-long.log"]["note"] == "left out: the limit --max-mib is reached"


def test_where_nobody_answers_the_machine_is_in_it(tmp_path: Path) -> None:
    """If no server answers, the bundle still has what can be read on this machine."""
    store = tmp_path / "no-store"
    store.mkdir()
    found, rows = bundled(tmp_path / "b.tar.gz", "-n", "127.0.0.1:1", "--store", str(store))
    assert json.loads(found["machine/facts.json"])["proc"]["loadavg"]
    assert "no name server answers" in rows["cluster/routes.json"]["note"]
    assert "not a store" in rows["store/parts.json"]["note"]
    refused = rmq(
        "debug", "bundle", "--to", str(tmp_path / "none" / "b.tar.gz"), "-n", "127.0.0.1:1"
    )
    assert refused.returncode == 1 and "No such file" in refused.stderr
