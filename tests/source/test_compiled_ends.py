"""The collector of garbage leaves compiled objects whole until nobody has them.

From each object of a circle it first takes what that refers to. One whose thread uses a log that
is gone by then hangs or crashes, far from its cause; which may be a test that failed, and whose
traceback keeps its variables.
"""

from __future__ import annotations

import importlib
import pkgutil
import re

from support.source_tree import ROOT

import cext

HAVE_GC = 1 << 14  # Py_TPFLAGS_HAVE_GC
CLASS = re.compile(r"((?:^@.*\n)*)^cdef class (\w+).*\n((?:^(?:[ #].*)?\n)*)", re.MULTILINE)
OF_PYTHON = ("cext.arrow.", "cext.client.")  # there only classes with a __dealloc__


def compiled_classes() -> list[tuple[type, str, str]]:
    """Each with the decorators and the body that its .pyx has."""
    found = []
    for module in pkgutil.walk_packages(cext.__path__, "cext."):
        source = ROOT / (module.name.replace(".", "/") + ".pyx")
        if not module.ispkg and source.exists():
            has = vars(importlib.import_module(module.name))
            found += [
                (has[name], decorators, body)
                for decorators, name, body in CLASS.findall(source.read_text())
            ]
    return found


def test_what_a_thread_or_a_dealloc_uses_is_there() -> None:
    wrong = []
    right = 0
    for kind, decorators, body in compiled_classes():
        if kind.__module__.startswith(OF_PYTHON) and "def __dealloc__" not in body:
            continue
        if kind.__flags__ & HAVE_GC and not kind.__subclasses__():
            right += "no_gc_clear" in decorators
            if "no_gc_clear" not in decorators:
                wrong.append(f"{kind.__module__}.{kind.__name__}: write @cython.no_gc_clear")
    assert wrong == []
    assert right > 20, "the pattern finds them"
