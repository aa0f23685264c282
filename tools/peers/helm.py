"""Helm: the machine's own, or built once into the cache by `go`.

    helm = helm_program()

Helm is large: the first build takes minutes; later runs find the result.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tools.peers.cache import ToolMissing
from tools.peers.go_program import installed

MODULE, VERSION = "helm.sh/helm/v3/cmd/helm", "v3.22.0"


def helm_program() -> Path:
    """The path of Helm. ToolMissing when the machine has none and it cannot be built."""
    found = shutil.which("helm")
    if found is not None:
        return Path(found)
    try:
        return installed(MODULE, VERSION)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise ToolMissing(f"helm is not installed, and not built: {error}") from None
