"""Goal: no two Python modules need each other, so each can be read, tested and moved alone.

Method: the graph of all imports (of modules, in functions, under TYPE_CHECKING) of the folders in
ROOTS; its strongly connected parts of more than one module are circles. Cannot prove: that nobody
finds another module by its name as text.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from support.source_tree import ROOT, files, imports, name_of

ROOTS = (
    "rmq.base",
    "rmq.broker",
    "rmq.cli",
    "rmq.config",
    "rmq.config_accepted",
    "rmq.config_table",
    "rmq.namesrv",
    "rmq.node",
    "rmq.observe",
    "rmq.system",
    "shards",
)


def is_below(module: str, roots: Iterable[str]) -> bool:
    return any(module == root or module.startswith(root + ".") for root in roots)


def graph_of(paths: Mapping[str, Path]) -> dict[str, set[str]]:
    """module -> modules of `paths` that it imports, in whatever way."""
    return {
        module: {used for used, _ in imports(path) if used in paths and used != module}
        for module, path in paths.items()
    }


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected parts of more than one module (Tarjan), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for used in sorted(graph[module]):
            if used not in index:
                visit(used)
                low[module] = min(low[module], low[used])
            elif used in stack:
                low[module] = min(low[module], index[used])
        if low[module] == index[module]:
            part = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(part) > 1:
                found.append(sorted(part))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return found


def test_no_modules_import_each_other() -> None:
    paths = {name_of(path): path for path in files(".py", trees=("rmq", "shards"))}
    chosen = {name: path for name, path in paths.items() if is_below(name, ROOTS)}
    assert all(any(is_below(name, [root]) for name in chosen) for root in ROOTS)
    assert circles(graph_of(chosen)) == []


def test_no_rooms_of_the_broker_import_each_other() -> None:
    """One level up: rmq.broker.tables and rmq.broker.requests are one module each."""
    rooms: dict[str, set[str]] = {}
    for path in files(".py", trees=("rmq",)):
        module = name_of(path)
        if is_below(module, ["rmq.broker"]):
            room = ".".join(module.split(".")[:3])
            used = {".".join(name.split(".")[:3]) for name, _ in imports(path)}
            rooms.setdefault(room, set()).update(used - {room})
    graph = {room: used & rooms.keys() for room, used in rooms.items()}
    assert circles(graph) == []


def test_planted_circles_are_seen(tmp_path: Path) -> None:
    texts = {
        "rmq.errors": "import rmq.codes\n",
        "rmq.codes": "def f():\n    from rmq.config import Settings\n",
        "rmq.config": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rmq.errors import E\n"
        ),
        "rmq.logs": "from rmq import errors\n",
    }
    paths = {}
    for module, text in texts.items():
        paths[module] = tmp_path / f"{module}.py"
        paths[module].write_text(text)
    assert circles(graph_of(paths)) == [["rmq.codes", "rmq.config", "rmq.errors"]]


def test_the_roots_are_folders_or_modules() -> None:
    for root in ROOTS:
        base = ROOT.joinpath(*root.split("."))
        assert base.is_dir() or base.with_suffix(".py").exists()
