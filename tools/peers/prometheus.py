"""Prometheus: the server and its promtool, the machine's own, or Debian's package in the cache.

    promtool = prometheus_program("promtool")

The package is unpacked but not installed, because an installation would start a service.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.peers.cache import ToolMissing, kept, ran, tool


def prometheus_program(name: str) -> Path:
    """The path of "prometheus" or "promtool". ToolMissing when neither the machine nor Debian has
    it."""
    found = shutil.which(name)
    return Path(found) if found is not None else _unpacked() / "usr" / "bin" / name


def _unpacked() -> Path:
    try:
        return kept("prometheus", _unpack)
    except (OSError, ValueError, RuntimeError) as error:
        raise ToolMissing(f"prometheus is not installed (Debian package: {error})") from None


def _unpack(folder: Path) -> None:
    ran([tool("apt-get"), "download", "prometheus"], folder)
    (package,) = folder.glob("*.deb")
    ran([tool("dpkg-deb"), "-x", package.name, "."], folder)
    package.unlink()
