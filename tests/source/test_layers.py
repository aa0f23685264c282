"""The layers: every import and cimport is one that tools/layers.toml allows."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.source_tree import OURS, ROOT, files, imports, name_of

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib  # type: ignore[import-not-found, no-redef]

TABLE = tomllib.loads((ROOT / "tools" / "layers.toml").read_text())


def covers(prefix: str, module: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def row_of(table: dict[str, list[str]], module: str) -> tuple[str, list[str]]:
    fitting = [prefix for prefix in table if covers(prefix, module)]
    assert fitting, f"{module} has no row in tools/layers.toml"
    longest = max(fitting, key=len)
    return longest, table[longest]


def is_own(prefix: str, used: str) -> bool:
    """Whether the row's folder has the module. Folders of cext and rmq have rows of their own."""
    return prefix not in ("cext", "rmq") and covers(prefix, used)


def allows(prefix: str, allowance: str, used: str) -> bool:
    """One allowance of a row. "rmq" alone, in a row of cext or rmq.format, allows the package
    itself and not what is below it."""
    if allowance == "rmq" and not prefix.startswith(("rmq.cli", "shards", "bench", "tools")):
        return used == "rmq"
    return covers(allowance, used)


def refusals(path: Path, module: str | None = None) -> list[str]:
    module = module or name_of(path)
    prefix, allowed = row_of(TABLE["layers"], module)
    found = []
    for used, _ in imports(path):
        if used.startswith("."):
            found.append(f"{module}: relative import {used}; write it in full")
        elif not is_own(prefix, used) and not any(allows(prefix, each, used) for each in allowed):
            found.append(f"{module} uses {used}; its row {prefix!r} allows {allowed}")
    return found


def unused(table: dict[str, list[str]], paths: Iterable[Path], root: Path = ROOT) -> list[str]:
    """Rows without a module, and allowances that no import of a row's modules needs."""
    uses: dict[str, set[str]] = {}
    for path in paths:
        prefix, _ = row_of(table, name_of(path, root))
        found = {used for used, _ in imports(path, root) if not is_own(prefix, used)}
        uses.setdefault(prefix, set()).update(found)
    return [
        *(f"the row {prefix!r} is of no module" for prefix in table if prefix not in uses),
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


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("cext.wire.frame", "from cext.store.log.record cimport RecordFields\n"),
        ("cext.net.reactor", "cimport cext.flow.pull.pull\n"),
        ("rmq.format.remoting", "def f():\n    import cext.wire.frame\n"),
        ("rmq.broker.topics", "from cext.flow.shard_core import ShardCore\n"),
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
