"""The project's sources as the tests of tests/source see them: files, modules, imports."""

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
    """As it is named in a message: from the root of the tree."""
    return str(path.relative_to(ROOT))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def blocks_of(node: ast.AST) -> Iterator[ast.AST]:
    """The statements right below a node, and the arms of `try` and `match`. Functions, classes and
    imports stand nowhere else: who looks for them need not go through expressions."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        yield from getattr(node, name, ())


def statements_of(node: ast.AST) -> Iterator[ast.AST]:
    """All of them, however deep, and nothing of what they say: a tenth of ast.walk."""
    waiting = list(blocks_of(node))
    while waiting:
        child = waiting.pop()
        yield child
        waiting.extend(blocks_of(child))


class Import(NamedTuple):
    """`import module`, or of `from module import names` all."""

    module: str
    names: tuple[str, ...] | None
    level: int  # dots before a module that is not named in full
    inside: bool  # a function


class Outline(NamedTuple):
    """Of a Python file what several rules look at."""

    functions: tuple[tuple[str, int], ...]  # and how many lines they have
    classes: tuple[str, ...]
    imports: tuple[Import, ...]


@cache
def outline(path: Path) -> Outline:
    """A file is parsed once for all rules of a process, and its tree is not kept: those of all
    files are half a gigabyte. Who asks for it stands in support/scheduler.py."""
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
    """(module of ours, whether inside a function) for every import and cimport of the file. Several
    rules ask for them; a file is read once."""
    return _imports(path, root)  # the cache tells a root that is named from one that is not


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
    """`from rmq.format import remoting` is an import of rmq.format.remoting."""
    full = f"{package}.{name}"
    return full if _is_module(full, root) else package


@cache  # thousands of imports name the same few modules
def _is_module(name: str, root: Path) -> bool:
    base = root.joinpath(*name.split("."))
    return base.is_dir() or any(base.with_suffix(end).exists() for end in (".py", ".pyx", ".pxd"))
