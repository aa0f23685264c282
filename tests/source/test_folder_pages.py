"""A folder's page: its __init__.py names every file in it, so that a reader need not open them all.

Goal: a new file gets its line there. Cannot prove: that the line is right.
"""

import re
from pathlib import Path

import pytest
from support.source_tree import ROOT

PAGES = (
    *("cext/base", "cext/memory", "cext/net", "cext/wire", "cext/store"),
    *("cext/client", "cext/load", "cext/arrow", "cext/testing", "cext/flow"),
    *(f"cext/store/{folder.parent.name}" for folder in (ROOT / "cext/store").glob("*/__init__.py")),
    *(f"cext/flow/{folder.parent.name}" for folder in (ROOT / "cext/flow").glob("*/__init__.py")),
    *("rmq/base", "rmq/node", "rmq/filters", "rmq/broker", "rmq/cli", "shards"),
    *(f"rmq/broker/{folder.parent.name}" for folder in (ROOT / "rmq/broker").glob("*/__init__.py")),
    *("rmq/format", "rmq/namesrv", "rmq/observe", "rmq/offline", "rmq/system", "rmq/spark"),
    "rmq/arrow",
    "rmq/operations",
    "rmq/console",
    "rmq/console/pages",
    *("rmq/serving", "rmq/controller", "rmq/backup", "rmq/scaling"),
    *("rmq/auth", "rmq/client", "rmq/aio", "rmq/setup", "rmq/takeover", "rmq/demo", "rmq/load"),
    "rmq/generate",
    "rmq/client/blocking",
    *(
        f"rmq/client/{folder}"
        for folder in ("connection", "producer", "consumer", "push", "pull", "pop", "threaded")
    ),
)


def members(folder: Path) -> set[str]:
    modules = {path.stem for ending in ("*.py", "*.pyx", "*.pxd") for path in folder.glob(ending)}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    return (modules | packages) - {"__init__"}


@pytest.mark.parametrize("folder", PAGES)
def test_a_folders_page_names_each_of_its_files(folder: str) -> None:
    page = (ROOT / folder / "__init__.py").read_text()
    words = set(re.findall(r"\w+", page))
    assert members(ROOT / folder) - words == set(), f"{folder}/__init__.py does not name them"


@pytest.mark.parametrize("folder", PAGES)
def test_a_folders_page_names_nothing_that_is_gone(folder: str) -> None:
    page = (ROOT / folder / "__init__.py").read_text()
    # Words of a sentence have no underscore; those before = are keywords of an example.
    listed = set(re.findall(r"\b[a-z]+_[a-z_]+\b(?!=)", page))
    assert listed - members(ROOT / folder) == set()
