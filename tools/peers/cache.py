"""Cache: the jars and programs of the peers, kept outside the tree.

    $RMQ_CACHE/lib             name server, broker, tools and client of Apache RocketMQ 5.5.0
    $RMQ_CACHE/apache-4.9.7    the same of an older version
    $RMQ_CACHE/client-acl-4.9.8    a client alone

A folder is complete or absent: it is filled under another name, and then renamed. When two
processes fetch at the same time, both do the work, and the first rename wins; neither waits.

    >>> jars = apache_jars()
    >>> (jars / "rocketmq-broker-5.5.0.jar").exists()
    True
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

APACHE_VERSION = "5.5.0"
APACHE_4 = "4.9.7"  # the last RocketMQ 4 of which Maven has all parts
HERE = Path(__file__).resolve().parent
RUN_SECONDS_MAX = 900

# The broker uses the insides of NIO buffers, which Java 17 refuses without these options. The
# broker of 4.9 unmaps files by jdk.internal.ref.
JAVA_OPENS = [
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
]


class ToolMissing(RuntimeError):
    """A program of the machine (java, mvn, go, npm) that the peers need is not installed."""


def tool(name: str) -> str:
    """Path of an installed program; the error names what to install."""
    path = shutil.which(name)
    if path is None:
        packages = {
            "java": "default-jdk-headless", "mvn": "maven", "go": "golang-go", "node": "nodejs",
        }  # fmt: skip
        package = packages.get(name, name)
        raise ToolMissing(f"{name} is not installed (Debian package: {package})")
    return path


def cache_directory() -> Path:
    """Where the jars live: $RMQ_CACHE, or ~/.cache/rmq/peers."""
    configured = os.environ.get("RMQ_CACHE")
    root = Path(configured) if configured else Path.home() / ".cache" / "rmq" / "peers"
    root.mkdir(parents=True, exist_ok=True)
    return root


def kept(folder: str, make: Callable[[Path], None]) -> Path:
    """The cache's folder of that name. If it is missing, `make` is called to fill a new one."""
    target = cache_directory() / folder
    if target.is_dir():
        return target
    partial = Path(tempfile.mkdtemp(prefix=f".{folder}-", dir=cache_directory()))
    try:
        make(partial)
        partial.chmod(0o755)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if not target.is_dir():  # it is there when another process was first
            raise
    return target


def kept_of(name: str, files: Iterable[Path], make: Callable[[Path], None]) -> Path:
    """kept() for something that is made from these files: it is made anew when one changes."""
    digest = sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]
    return kept(f"{name}-{digest}", make)


def fetch_dependencies(folder: str, pom: Path, properties: dict[str, str]) -> Path:
    """Copies the dependencies of `pom` into the cache as `folder`, unless they are there."""

    def fetch(target: Path) -> None:
        command = [tool("mvn"), "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
        command += [f"-D{key}={value}" for key, value in properties.items()]
        ran([*command, "-DincludeScope=runtime", f"-DoutputDirectory={target}"])

    return kept(folder, fetch)


def ran(
    command: list[str], folder: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    """Runs a program that builds or fetches something; returns what it printed. RuntimeError when
    it fails."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True,
        text=True, timeout=RUN_SECONDS_MAX,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def apache_jars(version: str = APACHE_VERSION) -> Path:
    """Folder with the jars of Apache RocketMQ's servers, tools and client."""
    folder = "lib" if version == APACHE_VERSION else f"apache-{version}"
    return fetch_dependencies(folder, HERE / "pom.xml", {"rocketmq.version": version})
