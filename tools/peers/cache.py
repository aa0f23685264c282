"""Jars from Maven Central, kept outside the tree.

    $RMQ_CACHE/lib             name server, broker, tools and client of Apache RocketMQ 5.5.0
    $RMQ_CACHE/client-acl-4.9.8    a client alone

A folder is complete or absent: Maven copies into a folder of its own, which is then renamed. Two
processes that fetch at the same time each do the work and the first rename wins; nobody waits.

    >>> jars = apache_jars()
    >>> (jars / "rocketmq-broker-5.5.0.jar").exists()
    True
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

APACHE_VERSION = "5.5.0"
HERE = Path(__file__).resolve().parent

# The broker reaches into NIO buffers; Java 17 refuses that without these options.
JAVA_OPENS = [
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
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


def fetch_dependencies(folder: str, pom: Path, properties: dict[str, str]) -> Path:
    """Copy the dependencies of `pom` into the cache as `folder`, unless they are there."""
    target = cache_directory() / folder
    if target.is_dir():
        return target
    partial = Path(tempfile.mkdtemp(prefix=f".{folder}-", dir=cache_directory()))
    command = [tool("mvn"), "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
    command += [f"-D{key}={value}" for key, value in properties.items()]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    partial.chmod(0o755)
    try:
        partial.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(partial, ignore_errors=True)
    return target


def apache_jars() -> Path:
    """Folder with the jars of Apache RocketMQ's servers, tools and client."""
    return fetch_dependencies("lib", HERE / "pom.xml", {"rocketmq.version": APACHE_VERSION})
