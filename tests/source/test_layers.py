"""The layers: every import and cimport is one that tools/layers.toml allows."""

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


def refusals(path: Path, module: str | None = None) -> list[str]:
    module = module or name_of(path)
    prefix, allowed = row_of(TABLE["layers"], module)
    found = []
    for used, _ in imports(path):
        if used.startswith("."):
            found.append(f"{module}: relative import {used}; write it in full")
            continue
        # "rmq" alone in a row of cext or rmq.format allows the package itself, not what is below
        fits = any(
            used == each if each == "rmq" and not prefix.startswith(("rmq.cli", "shards", "bench",
                                                                     "tools"))
            else covers(each, used)
            for each in allowed
        ) or covers(prefix, used)  # fmt: skip
        if not fits:
            found.append(f"{module} uses {used}; its row {prefix!r} allows {allowed}")
    return found


def test_imports_follow_the_layers() -> None:
    paths = files(".py", ".pyx", ".pxd", ".pyi", trees=OURS)
    assert [refusal for path in paths for refusal in refusals(path)] == []


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
    ],
)
def test_the_check_sees_a_planted_breach(tmp_path: Path, module: str, text: str) -> None:
    path = tmp_path / ("x.pyx" if module.startswith("cext") else "x.py")
    path.write_text(text)
    assert len(refusals(path, module)) == 1
