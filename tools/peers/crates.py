"""Crates: programs in Rust, built outside the tree from exactly what their Cargo.lock names.

cargo_program(Path("tests/compat/rust"), "rmq-compat")   # .../rust-0123456789ab/rmq-compat
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.peers.cache import kept_of, ran, tool


def cargo_program(project: Path, name: str) -> Path:
    """The program's path. The first build takes minutes, most of them for the client."""
    files = [project / "Cargo.toml", project / "Cargo.lock", *sorted(project.glob("src/*.rs"))]

    def build(folder: Path) -> None:
        source = folder / "source"
        for each in files:
            place = source / each.relative_to(project)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(each, place)
        ran([tool("cargo"), "build", "--locked", "--quiet"], source)
        shutil.move(source / "target" / "debug" / name, folder / name)
        shutil.rmtree(source)

    return kept_of(project.name, files, build) / name
