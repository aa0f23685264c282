"""Npm: packages kept outside the tree, exactly those that a package-lock.json names.

    modules = npm_modules(Path("tests/compat/grpc_node"))      # the value for NODE_PATH

No script of a package is run.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.peers.cache import kept_of, ran, tool

FILES = ("package.json", "package-lock.json")


def npm_modules(project: Path) -> Path:
    """The folder node_modules with the packages that the project's two files name; fetched once."""

    def install(folder: Path) -> None:
        for name in FILES:
            shutil.copy(project / name, folder)
        ran([tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)

    return kept_of(project.name, [project / name for name in FILES], install) / "node_modules"
