"""JDK: the Java that Spark runs on: 17 or later, found where it usually is.

    JAVA_HOME, then java on the PATH, then /usr/lib/jvm/*

On an older Java Spark 4 says UnsupportedClassVersionError, or nothing at all. Here the user gets
one line that says which Java is needed and what was found.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from rmq.errors import ConfigError

OLDEST = 17
JVM_FOLDER = Path("/usr/lib/jvm")


class JdkError(ConfigError):
    """No Java that Spark can run on."""


def java_version(home: Path) -> int | None:
    """17 of "17.0.15", 8 of "1.8.0"; None when this is no Java."""
    release = home / "release"
    try:
        found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release.read_text(), re.MULTILINE)
    except (OSError, ValueError):
        found = None
    if found is None:
        try:
            said = subprocess.run([home / "bin" / "java", "-version"], capture_output=True,
                                  text=True, timeout=30).stderr  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found is not None else None


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent
    if JVM_FOLDER.is_dir():
        yield from sorted(path for path in JVM_FOLDER.iterdir() if (path / "bin/java").exists())


def find_java_home() -> Path | None:
    """The home of the first Java that is new enough; None when there is none."""
    for home in _candidates():
        version = java_version(home)
        if version is not None and version >= OLDEST:
            return home
    return None


def need_java_home() -> Path:
    """The same; JdkError, when there is none, says what was found instead and what to do."""
    home = find_java_home()
    if home is not None:
        return home
    seen = {each: version for each in _candidates()
            if (version := java_version(each)) is not None}  # fmt: skip
    there = " and ".join(f"Java {version} in {each}" for each, version in seen.items())
    named = os.environ.get("JAVA_HOME")
    if named and Path(named) not in seen:
        there = f"{there or 'none'}, and JAVA_HOME={named} has no bin/java"
    raise JdkError(
        f"Spark needs Java {OLDEST} or later; there is {there or 'none'}."
        " Install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    )
