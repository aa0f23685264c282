"""Java programs: sources of the tree, compiled once into the cache.

    compiled(JAVA_LOAD / "RocketmqLoad.java", apache_jars())     the folder of its classes

Files in the same folder that the program uses are compiled with it. It is compiled anew when a file
of the folder changes.
"""

from __future__ import annotations

from pathlib import Path

from tools.peers.cache import HERE, kept_of, ran, tool

JAVA_LOAD = HERE / "java_load"


def compiled(main: Path, jars: Path) -> Path:

    def build(folder: Path) -> None:
        ran([tool("javac"), "-d", str(folder), "-cp", f"{jars}/*", "-sourcepath", str(main.parent),
             "-implicit:class", str(main)])  # fmt: skip

    return kept_of(main.stem, sorted(main.parent.glob("*.java")), build)
