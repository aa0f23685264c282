"""Prometheus and its promtool: those of the machine, or Debian's package in the cache.

    promtool = prometheus_program("promtool")

The package is unpacked and not installed: installing it would start a service.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.peers.cache import ToolMissing, cache_directory, tool


def prometheus_program(name: str) -> Path:
    """Of "prometheus" or "promtool"; ToolMissing where neither the machine nor Debian has it."""
    found = shutil.which(name)
    return Path(found) if found is not None else _unpacked() / "usr" / "bin" / name


def _unpacked() -> Path:
    target = cache_directory() / "prometheus"
    if target.is_dir():
        return target
    partial = Path(tempfile.mkdtemp(prefix=".prometheus-", dir=cache_directory()))
    try:
        _run([tool("apt-get"), "download", "prometheus"], partial)
        (package,) = partial.glob("*.deb")
        _run([tool("dpkg-deb"), "-x", package.name, "."], partial)
        package.unlink()
        partial.chmod(0o755)
        partial.rename(target)
    except (OSError, ValueError, ToolMissing) as error:
        shutil.rmtree(partial, ignore_errors=True)
        if not target.is_dir():  # another process may have been first
            raise ToolMissing(f"prometheus is not installed (Debian package: {error})") from None
    return target


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise ToolMissing(f"{' '.join(command)} failed: {done.stderr.strip()[-300:]}")
