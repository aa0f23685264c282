"""Compose: how Docker Compose reads a file, by its own command or by its library, built by `go`.

    subprocess.run(compose_config(), cwd=folder)    the project in folder/compose.yaml, as JSON

The program over the library (compose_config/) is built once into the cache. It checks a file
against the schema of the Compose specification, and resolves the file's references. Neither the
command nor the program asks a daemon.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tools.peers.cache import ToolMissing
from tools.peers.go_program import compiled

PROGRAM = Path(__file__).resolve().parent / "compose_config"


def compose_config() -> list[str]:
    """The command. ToolMissing when the machine has no Docker Compose and the program cannot be
    built."""
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]) and _succeeds([*words, "version"]):
            return [*words, "config", "--format", "json"]
    try:
        return [str(compiled(PROGRAM)), "compose.yaml"]
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise ToolMissing(f"docker compose is not installed, and no substitute: {error}") from None


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
