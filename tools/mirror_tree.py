"""Mirror tree: this tree's sources in another directory, for a build with other flags.

    tools/mirror_tree.py . build/asan

Only changed files are copied, and files that no longer exist here are deleted there, so that the
build in the other directory stays incremental. Its products (.so files, build/) are left alone.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

TREES = ("rmq", "pyspark_rmq", "cext", "shards", "tests", "tools", "bench", "docs")
FILES = ("setup.py", "pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "Makefile",
         "LICENSE", "MANIFEST.in")  # fmt: skip
SKIPPED_FOLDERS = {"__pycache__", "target", "lib"}
PRODUCTS = {".so", ".o", ".pyc"}


def sources(root: Path) -> dict[Path, Path]:
    """Relative path -> path, of each file that belongs to the sources."""
    found = {Path(name): root / name for name in FILES if (root / name).is_file()}
    for tree in TREES:
        for path in (root / tree).rglob("*"):
            relative = path.relative_to(root)
            if path.suffix in PRODUCTS or SKIPPED_FOLDERS & set(relative.parts):
                continue
            if path.is_file():
                found[relative] = path
    return found


def mirror(source: Path, target: Path) -> None:
    """Makes the sources below `target` equal to those below `source`."""
    wanted = sources(source)
    for relative, path in wanted.items():
        copy = target / relative
        if copy.exists() and copy.stat().st_mtime_ns == path.stat().st_mtime_ns:
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    for relative, path in sources(target).items():
        if relative not in wanted:
            path.unlink()


if __name__ == "__main__":
    mirror(Path(sys.argv[1]), Path(sys.argv[2]))
