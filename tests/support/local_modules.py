"""Local modules: those whose constants Hypothesis tries, found without asking the file system.

It tries what stands in the sources of the product, and asks of each module that is read where its
path leads, links and all: of two thousand in each worker of a whole run. Of a path in this tree its
beginning says it, with the same answer.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis.internal.conjecture import providers
from support.source_tree import ROOT

TREE, TESTS = f"{ROOT}/", f"{ROOT}/tests/"


def by_its_beginning(path: str, asked: Callable[[str], bool]) -> bool:
    """As Hypothesis says it: what tests say themselves, and what is installed, is not local."""
    if path.startswith(TESTS):
        return False
    rest = path.removeprefix(TREE)
    if rest == path or "test" in rest or "site-packages" in rest or rest.endswith(".so"):
        return asked(path)
    return True


def know_this_tree() -> None:
    asked = providers.is_local_module_file
    providers.is_local_module_file = lambda path: by_its_beginning(path, asked)
