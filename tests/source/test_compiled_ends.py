"""The garbage collector leaves compiled objects whole as long as anything refers to them.

To free a circle of objects, the collector first takes from each object what it refers to. An object
whose thread uses a log that is gone by then hangs or crashes, far from the cause. The cause may be
a test that failed, because its traceback keeps its variables.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import defaultdict

from support.source_tree import ROOT

import cext

HAVE_GC = 1 << 14  # Py_TPFLAGS_HAVE_GC
CLASS = re.compile(r"((?:^@.*\n)*)^cdef class (\w+).*\n((?:^(?:[ #].*)?\n)*)", re.MULTILINE)
CLASS_BEGINS = re.compile(r"^cdef class (\w+)(?:\(\w+\))?:$")
ATTRIBUTE = re.compile(r"^    cdef (?:readonly |public )?(\w+) \w+(?: *#.*)?$")
TAKEN_APART = {"Mailbox": "one of an Engine's circle must be"}
OF_PYTHON = ("cext.arrow.", "cext.client.")  # of these, only classes with a __dealloc__


def compiled_classes() -> list[tuple[type, str, str]]:
    """All compiled classes, each with the decorators and the body that its .pyx has."""
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
        if kind.__name__ in TAKEN_APART:
            assert "no_gc_clear" not in decorators, TAKEN_APART[kind.__name__]
        elif kind.__flags__ & HAVE_GC and not kind.__subclasses__():
            right += "no_gc_clear" in decorators
            if "no_gc_clear" not in decorators:
                wrong.append(f"{kind.__module__}.{kind.__name__}: write @cython.no_gc_clear")
    assert wrong == []
    assert right > 20, "the pattern finds them"


def attributes() -> dict[str, set[str]]:
    """{class: the types of its attributes}, without those of its bases."""
    found: dict[str, set[str]] = defaultdict(set)
    for page in (ROOT / "cext").rglob("*.pxd"):
        name = ""
        for line in page.read_text().splitlines():
            if begins := CLASS_BEGINS.match(line):
                name = begins[1]
            elif line and not line.startswith((" ", "#")):
                name = ""
            elif name and (attribute := ATTRIBUTE.match(line)):
                found[name].add(attribute[1])
    return found


def circles(refers: dict[str, set[str]]) -> list[str]:
    """Classes that refer to themselves, directly or through others."""

    def reached(name: str, seen: set[str]) -> set[str]:
        for other in refers.get(name, set()) - seen:
            seen.add(other)
            reached(other, seen)
        return seen

    return sorted(name for name in refers if name in reached(name, set()))


def test_no_circle_is_left_whole() -> None:
    """A circle in which every class is left whole would never be freed."""
    has = attributes()
    lines = {kind.__name__: names_of(kind) for kind, _, _ in compiled_classes()}
    whole = {
        kind.__name__ for kind, decorators, _ in compiled_classes() if "no_gc_clear" in decorators
    }
    refers = {
        name: {other for other, line in lines.items() if kinds & line}
        for name, line in lines.items()
        if (kinds := set[str]().union(*(has[each] for each in line)))
    }
    assert circles(refers) == ["Engine", "Mailbox"], "the pattern finds one"
    assert circles({name: others for name, others in refers.items() if name in whole}) == []


def names_of(kind: type) -> set[str]:
    """The names of a class and of its bases."""
    return {each.__name__ for each in kind.__mro__[:-1]}
