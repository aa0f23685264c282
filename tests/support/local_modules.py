"""Local modules: the modules whose constants Hypothesis tries, found without the file system.

Hypothesis tries constants of the product's sources. To know which modules these are, it resolves
the path of every imported module, with all links: of two thousand modules in each worker of a whole
run. For paths in this tree, and for Python's own modules, the beginning of the path gives the same
answer (except for Debian's sitecustomize.py, which Hypothesis takes for a module of the product).
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable

from hypothesis.internal.conjecture import providers
from support.source_tree import ROOT

TREE, TESTS = f"{ROOT}/", f"{ROOT}/tests/"
PYTHON = f"{sysconfig.get_path('stdlib')}/"


def by_its_beginning(path: str, asked: Callable[[str], bool]) -> bool:
    """The answer that Hypothesis would give: tests and installed modules are not local."""
    if path.startswith((TESTS, PYTHON)):
        return False
    rest = path.removeprefix(TREE)
    if rest == path or "test" in rest or "site-packages" in rest or rest.endswith(".so"):
        return asked(path)
    return True


def know_this_tree() -> None:
    asked = providers.is_local_module_file
    providers.is_local_module_file = lambda path: by_its_beginning(path, asked)
