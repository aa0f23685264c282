"""A setting that is said to be acted on is read, and one that may change at run time reaches what
acts on it.

The tests follow each key to its end: the table's row, the attribute that Python reads, the option
of the core that it becomes, and the field of `Options` that the reactor reads. A row that nobody
reads belongs in `rmq/config_accepted.py`, so that `without_effect()` names it to users who set it.
Cannot see: a value that is read and then not used.
"""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from support.source_tree import ROOT, files, parsed

from rmq.broker.broker import CORE_OPTIONS
from rmq.broker.core_options import core_options
from rmq.config import Settings
from rmq.config_table import Setting, table_of

TABLES = ("rmq/config_table.py", "rmq/config_accepted.py")
CORE = "rmq/broker/core_options.py"
# Folders of the other servers: what they read does not count for this server.
OF_OTHERS = {
    "broker": ("rmq/namesrv/", "rmq/controller/"),
    "namesrv": ("rmq/broker/", "rmq/controller/", "shards/", "rmq/scaling/", "rmq/takeover/"),
    "controller": ("rmq/broker/", "rmq/namesrv/", "shards/", "rmq/scaling/", "rmq/takeover/"),
}
# Keys of which the core gets a number that is worked out of the value.
WORKED_OUT = {"fileReservedTime": "timer_roll_ms"}

SERVERS = tuple(OF_OTHERS)
OPTION_READ = re.compile(r'given(?:\[|\.get\()"(\w+)"')
OPTION_SET = re.compile(r'\bname == "(\w+)"')
FIELD = re.compile(r"^    (?:const )?\w+ (\w+)(?:\[\w+\])?(?:\s+#.*)?$", re.MULTILINE)


def word_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def read_in(tree: ast.Module) -> set[str]:
    """Names that are read from an object, as in `settings.port` or `getattr(settings, "..")`."""
    constants = {
        node.targets[0].id: node.value for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }  # fmt: skip

    def spelled(node: ast.expr) -> set[str]:
        if isinstance(node, ast.Name):
            node = constants.get(node.id, node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return {node.value}
        return set()

    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and word_of(node.func) == "getattr":
            found |= spelled(node.args[1])
        elif isinstance(node, ast.Subscript) and word_of(node.value).endswith("_values"):
            found |= spelled(node.slice)
    return found


@cache
def reads() -> dict[str, set[str]]:
    """{file: the names that it reads}, without the tables of settings."""
    paths = {str(path.relative_to(ROOT)): path for path in files(".py", trees=("rmq", "shards"))}
    return {name: read_in(parsed(path)) for name, path in paths.items() if name not in TABLES}


@cache
def core_text() -> str:
    return "\n".join(path.read_text() for path in files(".pyx", trees=("cext",)))


def readers(server: str, key: str) -> list[str]:
    return [
        name for name, read in reads().items()
        if not name.startswith(OF_OTHERS[server])
        and (key in read or (key.startswith("tls.client.") and name == "rmq/serving/tls.py"
                             and f'("{key.rpartition(".")[2]}")' in (ROOT / name).read_text()))
    ]  # fmt: skip


def acted_on(server: str) -> list[Setting]:
    """The settings that are acted on, without those that can have only one value."""
    rows = table_of(server).values()
    return [row for row in rows if row.acted and not row.refusal and len(row.choices) != 1]


@pytest.mark.parametrize("server", SERVERS)
def test_what_is_acted_on_is_read(server: str) -> None:
    rows = acted_on(server)
    assert len(rows) > 30
    assert [row.key for row in rows if not readers(server, row.key)] == []


@pytest.mark.parametrize("server", SERVERS)
def test_what_changes_at_run_time_is_read_when_it_is_used(server: str) -> None:
    """It is not enough that the core reads such a setting when it starts."""
    found = [row.key for row in acted_on(server) if row.run_time]
    assert found
    reached = CORE_OPTIONS.keys() | WORKED_OUT.keys()
    copied = {key for key in found if CORE in readers(server, key)}
    assert copied - reached == set()
    assert [key for key in found if key not in reached and not readers(server, key)] == []


def test_an_option_of_the_core_is_read_there() -> None:
    given = core_options(Settings())
    read = set(OPTION_READ.findall(core_text()))
    assert len(given) > 60
    assert given.keys() - read == set()


def test_an_option_that_changes_is_taken_by_the_core() -> None:
    wanted = {*CORE_OPTIONS.values(), *WORKED_OUT.values()}
    assert wanted - set(OPTION_SET.findall(core_text())) == set()
    broker = (ROOT / "rmq/broker/broker.py").read_text()
    for key, option in WORKED_OUT.items():
        assert f'"{key}" in keys' in broker
        assert f'set_option("{option}"' in broker


def test_a_field_of_the_options_is_read_by_more_than_its_own_page() -> None:
    page = (ROOT / "cext/flow/context/options.pxd").read_text()
    fields = FIELD.findall(page.partition("cdef struct Options:")[2].partition("\n\n")[0])
    assert len(fields) > 30
    others = "\n".join(
        path.read_text() for path in files(".pyx", ".pxd", trees=("cext",))
        if path.stem != "options"
    )  # fmt: skip
    read = set(re.findall(r"\boptions\.(\w+)", others))
    # options_set() works memory_bytes into another field.
    assert set(fields) - read - {"memory_bytes"} == set()


def test_a_setting_that_nobody_reads_is_found() -> None:
    assert readers("broker", "listenPort")
    assert readers("broker", "checkCRCOnRecover") == []
    assert readers("namesrv", "brokerPermission") == []
