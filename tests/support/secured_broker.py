"""Secured broker: a broker as `rmq setup security` makes it, and what that prints for clients.

    with secured_broker(tmp_path) as secured:       # user alice may send to and read orders*
        secured.printed["Python"]                   # with the broker's addresses and her password

All commands are run as they are printed.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq


@dataclass
class SecuredBroker:
    broker: BrokerProcess
    folder: Path
    password: str
    printed: dict[str, str]  # what is printed for each kind of client
    settings: dict[str, str]  # environment variables with which `rmq` is the Super user

    def run(self, line: str) -> str:
        """Runs a command of `rmq`; returns its output."""
        with patch.dict(os.environ, self.settings):
            ran = rmq(*shlex.split(line)[1:])
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    @property
    def authority(self) -> Path:
        return self.folder / "authority.pem"


def sections(text: str) -> dict[str, list[str]]:
    """The indented lines below each title, by title."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("    ") and title:
            found.setdefault(title, []).append(line[4:])
        elif line.endswith(":"):
            title = line[:-1]
    return found


@contextmanager
def secured_broker(folder: Path, *words: str) -> Iterator[SecuredBroker]:
    """words: options of `rmq setup security`."""
    made = folder / "secure"
    done = rmq("setup", "security", "--directory", str(made), "--host", "127.0.0.1", *words)
    assert done.returncode == 0, done.stderr
    admin = json.loads((made / "admin.json").read_text())["password"]
    assert admin not in done.stdout + done.stderr
    with broker_process(folder, ["-c", str(made / "security.conf")]) as broker:
        printed = sections(done.stdout.replace("127.0.0.1:9876", broker.namesrv))
        assert printed["Start a server"] == [f"rmq standalone -c {made}/security.conf"]
        secured = SecuredBroker(broker, made, "", {}, {})
        for line in printed["rmq"]:
            if line.startswith("export "):
                secured.settings.update(pair.split("=", 1) for pair in shlex.split(line)[1:])
                continue
            said = secured.run(line)
            if "password: " in said:
                secured.password = said.partition("password: ")[2].splitlines()[0]
        texts = {kind: "\n".join(lines) + "\n" for kind, lines in printed.items()}
        own = f'"{secured.password}"'
        secured.printed = {kind: text.replace('".."', own) for kind, text in texts.items()}
        yield secured
        assert secured.password not in done.stdout + done.stderr + broker.log()
