"""The layers: every import and cimport is one that tools/layers.toml allows, and what the table
allows is an order: no row may use one that may use it, not even by way of others."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.circles import circles, shown
from support.source_tree import OURS, ROOT, files, imports, name_of

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib  # type: ignore[import-not-found, no-redef]

TABLE = tomllib.loads((ROOT / "tools" / "layers.toml").read_text())


PACKAGES = ("cext", "rmq")  # as prefixes they are the package itself, without what is below ..
WITH_ALL_BELOW = ("cext.testing", "bench", "tools")  # .. but in these rows, which nobody may use
GENERATED = {"cext._build"}  # written by setup.py: in a tree that was never built it is not there


def covers(prefix: str, module: str) -> bool:
    return module == prefix or (prefix not in PACKAGES and module.startswith(prefix + "."))


def row_of(table: dict[str, list[str]], module: str) -> tuple[str, list[str]]:
    fitting = [prefix for prefix in table if covers(prefix, module)]
    assert fitting, f"{module} has no row in tools/layers.toml"
    longest = max(fitting, key=len)
    return longest, table[longest]


def is_own(table: dict[str, list[str]], prefix: str, used: str) -> bool:
    """In the same folder, and in no row of its own."""
    return covers(prefix, used) and row_of(table, used)[0] == prefix


def allows(prefix: str, allowance: str, used: str) -> bool:
    """One allowance of a row."""
    if prefix in WITH_ALL_BELOW and allowance in PACKAGES:
        return used.startswith(allowance)
    return covers(allowance, used)


def graph_of(table: dict[str, list[str]]) -> dict[str, set[str]]:
    """By row: the rows that it may use, a part of a row being that row."""
    return {
        prefix: {
            row
            for each in allowed
            for row in table
            if allows(prefix, each, row) or row == row_of(table, each)[0]
        }
        - {prefix}
        for prefix, allowed in table.items()
    }


def refusals(path: Path, module: str | None = None) -> list[str]:
    module = module or name_of(path)
    prefix, allowed = row_of(TABLE["layers"], module)
    found = []
    for used, _ in imports(path):
        if used.startswith("."):
            found.append(f"{module}: relative import {used}; write it in full")
        elif is_own(TABLE["layers"], prefix, used):
            continue
        elif not any(allows(prefix, each, used) for each in allowed):
            found.append(f"{module} uses {used}; its row {prefix!r} allows {allowed}")
    return found


def unused(table: dict[str, list[str]], paths: Iterable[Path], root: Path = ROOT) -> list[str]:
    """Rows without a module, and allowances that no import of a row's modules needs."""
    uses: dict[str, set[str]] = {}
    for path in paths:
        prefix, _ = row_of(table, name_of(path, root))
        found = {used for used, _ in imports(path, root) if not is_own(table, prefix, used)}
        uses.setdefault(prefix, set()).update(found)
    return [
        *(
            f"the row {prefix!r} is of no module"
            for prefix in table
            if prefix not in uses and prefix not in GENERATED
        ),
        *(
            f"{prefix!r} is allowed {each!r} and does not use it"
            for prefix, allowed in table.items()
            for each in allowed
            if prefix in uses and not any(allows(prefix, each, used) for used in uses[prefix])
        ),
    ]


def test_imports_follow_the_layers() -> None:
    paths = files(".py", ".pyx", ".pxd", ".pyi", trees=OURS)
    assert [refusal for path in paths for refusal in refusals(path)] == []


def test_every_allowance_is_used() -> None:
    assert unused(TABLE["layers"], files(".py", ".pyx", ".pxd", ".pyi", trees=OURS)) == []


def test_the_table_has_no_circle() -> None:
    found = circles(graph_of(TABLE["layers"]))
    assert not found, f"circles of rows:\n{shown(found)}"


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("cext.wire.frame", "from cext.store.log.record cimport RecordFields\n"),
        ("cext.net.reactor", "cimport cext.flow.pull.pull\n"),
        ("rmq.format.remoting", "def f():\n    import cext.wire.frame\n"),
        ("rmq.broker.tables.topics", "from cext.flow.shard_core import ShardCore\n"),
        ("rmq.client.blocking.tail", "from . import cluster\n"),
        ("rmq.client.pull.puller", "from rmq.client.push import workers\n"),
        ("rmq.codes", "import rmq.errors\n"),
        ("rmq", "from rmq.broker import async_logger\n"),
    ],
)
def test_the_check_sees_a_planted_breach(tmp_path: Path, module: str, text: str) -> None:
    path = tmp_path / ("x.pyx" if module.startswith("cext") else "x.py")
    path.write_text(text)
    assert len(refusals(path, module)) == 1


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ({"rmq.a": ["rmq.b"], "rmq.b": []}, []),
        ({"rmq.a": ["rmq.b.c"], "rmq.b": []}, ["'rmq.a' is allowed 'rmq.b.c' and does not use it"]),
        (
            {"rmq.a": ["rmq.b", "cext"], "rmq.b": ["rmq.b.c"]},
            [
                "'rmq.a' is allowed 'cext' and does not use it",
                "'rmq.b' is allowed 'rmq.b.c' and does not use it",  # its own folder
            ],
        ),
        ({"rmq.a": ["rmq.b"], "rmq.b": [], "rmq.gone": []}, ["the row 'rmq.gone' is of no module"]),
    ],
)
def test_a_planted_allowance_is_seen(
    tmp_path: Path, table: dict[str, list[str]], found: list[str]
) -> None:
    (tmp_path / "rmq" / "b").mkdir(parents=True)
    sources = {"a.py": "import rmq.b\n", "b/__init__.py": "from rmq.b import c\n", "b/c.py": ""}
    for name, text in sources.items():
        (tmp_path / "rmq" / name).write_text(text)
    paths = sorted((tmp_path / "rmq").rglob("*.py"))
    assert unused(table, paths, tmp_path) == found


@pytest.mark.parametrize(
    ("table", "circle"),
    [
        ({"rmq.a": ["rmq.b"], "rmq.b": []}, []),
        ({"rmq.a": ["rmq.b"], "rmq.b": ["rmq.a"]}, ["rmq.a", "rmq.b"]),
        # a part of a row, and all rows below a folder
        ({"rmq.a": ["rmq.b.c"], "rmq.b": ["rmq.a"]}, ["rmq.a", "rmq.b"]),
        ({"rmq.a": ["rmq.b"], "rmq.b.c": ["rmq.a"], "rmq.b": []}, ["rmq.a", "rmq.b.c"]),
        # a folder and what has a row of its own in it
        ({"rmq.a": ["rmq.a.b"], "rmq.a.b": ["rmq.a.c"]}, ["rmq.a", "rmq.a.b"]),
        ({"rmq.a": ["rmq.a.b"], "rmq.a.b": ["rmq.a.c"], "rmq.a.c": []}, []),
        # the package, which is not what is below it
        ({"rmq": ["rmq.a"], "rmq.a": ["rmq.b"], "rmq.b": []}, []),
        ({"rmq": ["rmq.a"], "rmq.a": ["rmq"]}, ["rmq", "rmq.a"]),
    ],
)
def test_a_planted_circle_of_rows_is_seen(table: dict[str, list[str]], circle: list[str]) -> None:
    found = circles(graph_of(table))
    assert sorted(set(found[0])) == circle if circle else found == []
