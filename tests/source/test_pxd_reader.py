"""tools/pxd_reader.py: the C of a module is what Cython alone makes, whatever was read before.

Cython, and setup.py with setuptools, are imported by fixtures, because every worker of pytest
imports this file and only one of them runs it.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tools.pxd_reader import PxdReader

# Modules of three layers. Each cimports, mostly through others, .pxd files that the others cimport,
# too.
MODULES = [
    "cext/wire/properties.pyx",
    "cext/flow/fetch/fetch_service.pyx",
    "cext/client/sender.pyx",
]

Readers = Callable[[], "PxdReader"]


def name_of(source: str) -> str:
    return ".".join(Path(source).with_suffix("").parts)


@pytest.fixture(scope="module")
def directives() -> dict[str, Any]:
    return dict(runpy.run_path("setup.py")["DIRECTIVES"])


@pytest.fixture(scope="module")
def new_reader(directives: dict[str, Any]) -> Readers:
    from tools.pxd_reader import PxdReader

    return lambda: PxdReader(directives)


@pytest.fixture(scope="module")
def alone(directives: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    from Cython.Compiler.Main import compile_single

    from tools.pxd_reader import options

    made = {}
    for source in MODULES:
        generated = tmp_path_factory.mktemp("alone") / "module.c"
        compile_single(source, options(directives, str(generated)), name_of(source))
        made[source] = generated.read_bytes()
    return made


@pytest.mark.parametrize("order", [1, -1])
def test_c_is_what_cython_alone_makes(
    order: int, new_reader: Readers, alone: dict[str, bytes], tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    reader = new_reader()
    for number, source in enumerate(MODULES[::order]):
        generated = tmp_path / f"{number}.c"
        reader.generate(name_of(source), source, generated)
        assert generated.read_bytes() == alone[source], source
    assert reader.context is not None
    assert "warning" not in capfd.readouterr().err


def test_another_cython_inside_makes_it_slower_only(
    new_reader: Readers, alone: dict[str, bytes], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """If Cython has other internals, each .pxd is read anew for each module, and the C is the
    same."""
    reader = new_reader()
    del reader.context.__dict__["pxds"]  # type: ignore[union-attr]
    reader.generate(name_of(MODULES[0]), MODULES[0], tmp_path / "a.c")
    assert (tmp_path / "a.c").read_bytes() == alone[MODULES[0]]
    assert "each .pxd anew" in capfd.readouterr().err


def test_a_mistake_is_named(
    new_reader: Readers, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.pyx"
    wrong.write_text("cdef int f(:\n    pass\n")
    with pytest.raises(SystemExit, match=r"wrong\.pyx: Cython cannot compile it"):
        new_reader().generate("wrong", str(wrong), tmp_path / "wrong.c")
    assert "wrong.pyx:1:" in capfd.readouterr().err
