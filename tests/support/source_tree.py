"""Source tree: the project's sources as tests of tests/source see them: files, modules, imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TREES = ("rmq", "pyspark_rmq", "cext", "shards", "bench", "tools", "tests")
OURS = ("rmq", "pyspark_rmq", "cext", "shards", "bench", "tools")
_SKIPPED = {"__pycache__", "target", "lib", "node_modules", ".gradle"}

_CYTHON_IMPORT = re.compile(
    r"^(?P<indent>[ \t]*)(?:from\s+(?P<package>[\w.]+)\s+c?import\s+(?P<names>\([^)]*\)|[^\n#]*)"
    r"|c?import\s+(?P<module>[\w.]+))",
    re.MULTILINE,
)


def files(*suffixes: str, trees: tuple[str, ...] = TREES) -> list[Path]:
    """Every source file with one of the suffixes, in alphabetical order."""
    return sorted(path for tree in trees for path in _files_of(tree) if path.suffix in suffixes)


@cache
def _files_of(tree: str) -> list[Path]:
    return [
        path
        for path in (ROOT / tree).rglob("*")
        if path.is_file() and not _SKIPPED & set(path.parts)
    ]


def shown(path: Path) -> str:
    """The path as messages show it, relative to the root of the tree."""
    return str(path.relative_to(ROOT))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def blocks_of(node: ast.AST) -> Iterator[ast.AST]:
    """The statements directly below a node, and the arms of `try` and `match`. Functions, classes
    and imports are found here without a walk through expressions."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        yield from getattr(node, name, ())


def statements_of(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node, at any depth, without their expressions: a tenth of the cost of
    ast.walk."""
    waiting = list(blocks_of(node))
    while waiting:
        child = waiting.pop()
        yield child
        waiting.extend(blocks_of(child))


class Import(NamedTuple):
    """`import module` (names: None), or `from module import names`."""

    module: str
    names: tuple[str, ...] | None
    level: int  # leading dots of a relative import
    inside: bool  # whether the import is inside a function


class Outline(NamedTuple):
    """The parts of a Python file that several rules look at."""

    functions: tuple[tuple[str, int], ...]  # name and number of lines
    classes: tuple[str, ...]
    imports: tuple[Import, ...]


@cache
def outline(path: Path) -> Outline:
    """Parses a file, once for all rules of a process. Its tree is not kept, because the trees of
    all files take half a gigabyte. support/scheduler.py lists the tests that call this."""
    return outline_of(parsed(path))


def outline_of(tree: ast.Module) -> Outline:
    functions, classes, imports = [], [], []
    waiting = [(node, False) for node in blocks_of(tree)]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            functions.append((node.name, node.end_lineno - node.lineno + 1))
            inside = True
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
        elif isinstance(node, ast.Import):
            imports += [Import(each.name, None, 0, inside) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(each.name for each in node.names)
            imports.append(Import(node.module or "", names, node.level, inside))
        waiting += [(child, inside) for child in blocks_of(node)]
    return Outline(tuple(functions), tuple(classes), tuple(imports))


def name_of(path: Path, root: Path = ROOT) -> str:
    """`cext/wire/header.pyx` -> "cext.wire.header", `rmq/cli/__init__.py` -> "rmq.cli"."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, root: Path = ROOT) -> tuple[tuple[str, bool], ...]:
    """(module of this project, whether inside a function) for every import and cimport of the file.
    Several rules need them; each file is read once."""
    return _imports(path, root)  # the cache would see a default root and a named one as two keys


@cache
def _imports(path: Path, root: Path) -> tuple[tuple[str, bool], ...]:
    return tuple(_found_imports(path, root))


def _found_imports(path: Path, root: Path) -> Iterator[tuple[str, bool]]:
    if path.suffix in (".py", ".pyi"):
        yield from _python_imports(outline(path), root)
        return
    for found in _CYTHON_IMPORT.finditer(path.read_text()):
        package, module = found["package"], found["module"]
        names = re.findall(r"\w+", found["names"] or "")
        for used in [_imported(package, name, root) for name in names] if package else [module]:
            if used.startswith(".") or used.split(".")[0] in OURS:
                yield used, bool(found["indent"])


def _python_imports(found: Outline, root: Path) -> Iterator[tuple[str, bool]]:
    for module, names, level, inside in found.imports:
        if level:
            yield "." * level + module, inside
        elif module.split(".")[0] in OURS:
            for used in (module,) if names is None else (_imported(module, n, root) for n in names):
                yield used, inside


def _imported(package: str, name: str, root: Path) -> str:
    """The module that is imported: for `from rmq.format import remoting`, rmq.format.remoting."""
    full = f"{package}.{name}"
    return full if _is_module(full, root) else package


@cache  # since thousands of imports name the same few modules
def _is_module(name: str, root: Path) -> bool:
    base = root.joinpath(*name.split("."))
    return base.is_dir() or any(base.with_suffix(end).exists() for end in (".py", ".pyx", ".pxd"))
