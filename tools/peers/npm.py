"""Packages of npm, kept outside the tree: exactly those that a package-lock.json names.

    modules = npm_modules(Path("tests/compat/grpc_node"))      # what NODE_PATH is set to

No script of a package is run.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.peers.cache import cache_directory, tool

FILES = ("package.json", "package-lock.json")


def npm_modules(project: Path) -> Path:
    """The folder node_modules of what the two files of the project name; fetched once."""
    digest = hashlib.sha256(b"".join((project / name).read_bytes() for name in FILES)).hexdigest()
    target = cache_directory() / f"{project.name}-{digest[:12]}"
    if not target.is_dir():
        partial = Path(tempfile.mkdtemp(prefix=f".{project.name}-", dir=cache_directory()))
        try:
            for name in FILES:
                shutil.copy(project / name, partial)
            command = [tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(command, cwd=partial, capture_output=True, text=True, timeout=900)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
            partial.chmod(0o755)
            partial.rename(target)
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            if not (isinstance(error, OSError) and target.is_dir()):  # another process was first
                raise
    return target / "node_modules"
