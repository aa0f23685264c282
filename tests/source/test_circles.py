"""No circles of imports: to read a module, one need not read the modules that use it.

Every import counts, of whatever kind: at the top of a file, inside a function, under TYPE_CHECKING,
and every cimport of a .pxd or .pyx. All files of one name are one module: a .pyx belongs to its
.pxd, a .pyi to the module that it describes.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from support.source_tree import OURS, ROOT, files, imports, name_of, outline

Graph = Mapping[str, set[str]]

# Modules, or folders with all below them, that are in a circle. The list should be empty and must
# not grow: a new circle is opened, by a Protocol or by moving what both sides need below both. A
# module that is in no circle any more must leave the list.
KNOWN: set[str] = set()


def is_known(module: str) -> bool:
    return any(module == each or module.startswith(each + ".") for each in KNOWN)


def room_of(module: str) -> str:
    return ".".join(module.split(".")[:3])


def graph_of(paths: Iterable[Path], root: Path = ROOT) -> dict[str, set[str]]:
    """{module: the modules that it imports, in whatever way}"""
    by_module: dict[str, list[Path]] = {}
    for path in paths:
        by_module.setdefault(name_of(path, root), []).append(path)
    graph: dict[str, set[str]] = {}
    for module, own in by_module.items():
        used = {name for path in own for name, _ in imports(path, root)}
        graph[module] = {name for name in used if name in by_module and name != module}
    return graph


def shortest_circle(graph: Graph, start: str) -> list[str] | None:
    """The shortest way from a module back to itself, both ends included; None without one."""
    came_from: dict[str, str] = {}
    waiting = deque([start])
    while waiting:
        module = waiting.popleft()
        for used in sorted(graph[module]):
            if used == start:
                way = [start, module]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if used not in came_from:
                came_from[used] = module
                waiting.append(used)
    return None


def circles(graph: Graph) -> list[list[str]]:
    """Circles that share no module, the shortest first. One that shares a module with a shorter one
    is left out: it shows once the shorter one is opened."""
    found = [way for way in (shortest_circle(graph, module) for module in graph) if way]
    apart: list[list[str]] = []
    for way in sorted(found, key=lambda way: (len(way), way)):
        if all(set(way).isdisjoint(each) for each in apart):
            apart.append(way)
    return apart


def shown(ways: Iterable[list[str]]) -> str:
    return "\n".join("  " + " -> ".join(way) for way in ways)


@pytest.fixture(scope="module")
def tree() -> dict[str, set[str]]:
    return graph_of(files(".py", ".pyx", ".pxd", ".pyi", trees=OURS))


def test_no_module_stands_in_a_circle(tree: dict[str, set[str]]) -> None:
    unknown = {module: {each for each in used if not (is_known(module) and is_known(each))}
               for module, used in tree.items()}  # fmt: skip
    found = circles(unknown)
    assert not found, f"circles of imports:\n{shown(found)}"


def test_no_rooms_of_the_broker_import_each_other(tree: dict[str, set[str]]) -> None:
    """One level up: rmq.broker.tables and rmq.broker.requests are one module each."""
    rooms: dict[str, set[str]] = {}
    for module, used in tree.items():
        if module == "rmq.broker" or module.startswith("rmq.broker."):
            rooms.setdefault(room_of(module), set()).update(map(room_of, used))
    graph = {room: (used & rooms.keys()) - {room} for room, used in rooms.items()}
    assert {"rmq.broker.tables", "rmq.broker.requests"} <= graph.keys()
    found = circles(graph)
    assert not found, f"circles of rooms:\n{shown(found)}"


def named_in(path: Path) -> set[str]:
    """What a file of the tests imports: modules, and names in them, which may be modules, too."""
    found = set()
    for module, names, _, _ in outline(path).imports:
        if module:
            found |= {module, *(f"{module}.{name}" for name in names or ())}
    return found


def test_tests_import_no_tests_and_stand_in_no_circle() -> None:
    """What two tests need is in support/, or in a file beside them that is no test."""
    tests = ROOT / "tests"
    graph = {name_of(path, tests): named_in(path) for path in files(".py", trees=("tests",))}
    graph = {name: (used & graph.keys()) - {name} for name, used in graph.items()}
    imported = set().union(*graph.values())
    assert {"support.waiting", "compat.popper"} <= imported
    assert not [each for each in sorted(imported) if each.rpartition(".")[2].startswith("test_")]
    found = circles(graph)
    assert not found, f"circles of imports:\n{shown(found)}"


def test_the_list_of_known_circles_shrinks(tree: dict[str, set[str]]) -> None:
    standing = {module for module in tree if shortest_circle(tree, module)}
    free = [
        each
        for each in KNOWN
        if not any(module == each or module.startswith(each + ".") for module in standing)
    ]
    assert not free, f"in no circle any more, so take them out of KNOWN: {sorted(free)}"


@pytest.mark.parametrize(
    ("sources", "circle"),
    [
        ({"a.py": "import rmq.b\n", "b.py": "import rmq.a\n"}, ["rmq.a", "rmq.b"]),
        ({"a.py": "import rmq.b\n", "b.py": "def f():\n    from rmq import a\n"},
         ["rmq.a", "rmq.b"]),
        ({"a.py": "import rmq.b\n",
          "b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rmq.a import A\n"},
         ["rmq.a", "rmq.b"]),
        ({"a.pxd": "", "a.pyx": "from rmq.b cimport f\n", "b.pxd": "from rmq.a cimport g\n"},
         ["rmq.a", "rmq.b"]),
        # the short circle is found, although d makes a larger one
        ({"a.py": "import rmq.b\nimport rmq.d\n", "b.py": "import rmq.a\n",
          "d.py": "import rmq.e\n", "e.py": "import rmq.b\n"}, ["rmq.a", "rmq.b"]),
        # a circle of three, each import of another kind; d only leads into it
        ({"a.py": "import rmq.b\n", "b.py": "def f():\n    from rmq.c import C\n",
          "c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rmq.a import A\n",
          "d.py": "from rmq import a\n"}, ["rmq.a", "rmq.b", "rmq.c"]),
        ({"a.py": "import rmq.b\n", "b.py": "import rmq.c\n", "c.py": ""}, None),
    ],
)  # fmt: skip
def test_a_planted_circle_is_seen(
    tmp_path: Path, sources: dict[str, str], circle: list[str] | None
) -> None:
    (tmp_path / "rmq").mkdir()
    for name, text in sources.items():
        (tmp_path / "rmq" / name).write_text(text)
    found = circles(graph_of(sorted((tmp_path / "rmq").iterdir()), tmp_path))
    assert (sorted(set(found[0])) if found else None) == circle
