"""No circles of imports: to read a module, one need not read the modules that use it.

Every import counts, of whatever kind: at the top of a file, inside a function, under TYPE_CHECKING,
and every cimport of a .pxd or .pyx. All files of one name are one module: a .pyx belongs to its
.pxd, a .pyi to the module that it describes.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.circles import circles, shown
from support.source_tree import OURS, ROOT, files, imports, name_of, outline


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


@pytest.fixture(scope="module")
def tree() -> dict[str, set[str]]:
    return graph_of(files(".py", ".pyx", ".pxd", ".pyi", trees=OURS))


def test_no_module_stands_in_a_circle(tree: dict[str, set[str]]) -> None:
    found = circles(tree)
    assert not found, f"circles of imports:\n{shown(found)}"


def below(folder: str, module: str) -> str:
    """What of `folder` the module is or is in: a module or a folder that lies directly in it."""
    return ".".join(module.split(".")[: folder.count(".") + 2])


def folder_graph(tree: dict[str, set[str]], folder: str) -> dict[str, set[str]]:
    """By part of a folder, a module or a folder in it: the other parts that it imports."""
    graph: dict[str, set[str]] = {}
    for module, used in tree.items():
        if module.startswith(folder + "."):
            own = {below(folder, each) for each in used if each.startswith(folder + ".")}
            graph.setdefault(below(folder, module), set()).update(own)
    return {part: used - {part} for part, used in graph.items()}


def test_no_parts_of_a_folder_import_each_other(tree: dict[str, set[str]]) -> None:
    """One level up, in every folder: rmq.broker.tables and rmq.broker.requests are one node each,
    and so is rmq.broker.broker. Not tried at the root: cext takes what is below its callers, such
    as errors, from rmq, and test_layers.py says which."""
    folders = {module.rpartition(".")[0] for module in tree if "." in module}
    assert {"rmq", "cext.flow", "rmq.broker", "rmq.client", "shards"} <= folders
    assert {"rmq.broker.tables", "rmq.broker.broker"} <= folder_graph(tree, "rmq.broker").keys()
    found = [way for each in sorted(folders) for way in circles(folder_graph(tree, each))]
    assert not found, f"circles of folders:\n{shown(found)}"


@pytest.mark.parametrize(
    ("imported", "circle"),
    [
        # two folders, though no two modules import each other
        ({"rmq.a.x.one": {"rmq.a.y.one"}, "rmq.a.y.two": {"rmq.a.x.two"},
          "rmq.a.y.one": set(), "rmq.a.x.two": set()}, ["rmq.a.x", "rmq.a.y"]),
        # a folder and a module beside it
        ({"rmq.a.x.one": {"rmq.a.low"}, "rmq.a.low": {"rmq.a.x.two"}, "rmq.a.x.two": set()},
         ["rmq.a.low", "rmq.a.x"]),
        # a module below and one above are no circle
        ({"rmq.a.x.one": {"rmq.a.low"}, "rmq.a.high": {"rmq.a.x.one"}, "rmq.a.low": set()}, None),
        # by way of another folder
        ({"rmq.a.x.one": {"rmq.b.one"}, "rmq.b.one": {"rmq.a.x.two"}, "rmq.a.x.two": set()}, None),
    ],
)  # fmt: skip
def test_a_planted_circle_of_folders_is_seen(
    imported: dict[str, set[str]], circle: list[str] | None
) -> None:
    found = circles(folder_graph(imported, "rmq.a"))
    assert (sorted(set(found[0])) if found else None) == circle


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
