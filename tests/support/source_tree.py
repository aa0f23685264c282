"""The project's sources as the tests of tests/source see them: files, modules, imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

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


def functions_of(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in statements_of(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child


def name_of(path: Path, root: Path = ROOT) -> str:
    """`cext/wire/header.pyx` -> "cext.wire.header", `rmq/cli/__init__.py` -> "rmq.cli"."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports(path: Path, root: Path = ROOT) -> tuple[tuple[str, bool], ...]:
    """(module of ours, whether inside a function) for every import and cimport of the file. Several
    rules ask for them; a file is read once."""
    return tuple(_found_imports(path, root))


def _found_imports(path: Path, root: Path) -> Iterator[tuple[str, bool]]:
    if path.suffix in (".py", ".pyi"):
        yield from _python_imports(parsed(path), root)
        return
    for found in _CYTHON_IMPORT.finditer(path.read_text()):
        package, module = found["package"], found["module"]
        names = re.findall(r"\w+", found["names"] or "")
        for used in [_imported(package, name, root) for name in names] if package else [module]:
            if used.startswith(".") or used.split(".")[0] in OURS:
                yield used, bool(found["indent"])


def _python_imports(tree: ast.Module, root: Path) -> Iterator[tuple[str, bool]]:
    def walk(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool]]:
        for child in blocks_of(node):
            within = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            if isinstance(child, ast.Import):
                for alias in child.names:
                    if alias.name.split(".")[0] in OURS:
                        yield alias.name, inside
            elif isinstance(child, ast.ImportFrom):
                module = child.module or ""
                if child.level:
                    yield "." * child.level + module, inside
                elif module.split(".")[0] in OURS:
                    for alias in child.names:
                        yield _imported(module, alias.name, root), inside
            yield from walk(child, within)

    yield from walk(tree, False)


def _imported(package: str, name: str, root: Path) -> str:
    """`from rmq.format import remoting` is an import of rmq.format.remoting."""
    full = f"{package}.{name}"
    return full if _is_module(full, root) else package


def _is_module(name: str, root: Path) -> bool:
    base = root.joinpath(*name.split("."))
    return base.is_dir() or any(base.with_suffix(end).exists() for end in (".py", ".pyx", ".pxd"))
