"""Go programs: built once into the cache by `go`.

    installed("github.com/nats-io/nats-server/v2", "v2.15.2")     its command, in its own folder
    compiled(HERE / "nats_load")             of sources in the tree: anew when one of them changed

A program is built for this machine, and its modules are checked against Go's checksum data base.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.peers.cache import kept, kept_of, ran, tool

# Without the commit in it: nothing needs that, and git refuses a tree that another user owns.
BUILD = ["build", "-buildvcs=false", "-trimpath"]


def installed(module: str, version: str) -> Path:
    """A command of a published module."""
    name = re.sub(r"/v\d+$", "", module).rpartition("/")[2]

    def install(folder: Path) -> None:
        ran([tool("go"), "install", f"{module}@{version}"], environment={"GOBIN": str(folder)})

    return kept(f"{name}-{version}", install) / name


def compiled(source: Path) -> Path:
    """The command of a folder with go.mod, go.sum and one package."""
    name = source.name.replace("_", "-")
    files = [path for path in sorted(source.iterdir()) if path.is_file()]

    def build(folder: Path) -> None:
        ran([tool("go"), *BUILD, "-o", str(folder / name), "."], source)

    return kept_of(name, files, build) / name
