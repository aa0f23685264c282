"""The marks of the log and the role of a core are changed only by functions that check the change.

The tests read every compiled source except those for tests. Left out are the files that have the
checks, and the log itself, which sets its marks anew when it is opened
(cext/store/log/commit_log.pyx).
"""

import re
from collections.abc import Iterator
from pathlib import Path

from support.source_tree import ROOT

CEXT = ROOT / "cext"
STORES = {
    "a mark": (
        re.compile(r"\bmarks\.\w+ *[-+|&]?=(?!=)|\bwatermark_raise\("),
        {
            "cext/base/watermark.pxd",
            "cext/store/log/commit_log.pyx",
            "cext/flow/append/log_marks.pxd",
        },
    ),
    "a role": (
        re.compile(r"\b(role\.\w+|facts) *[-+|&]?=(?!=)|&[\w.]*\brole\.\w+"),
        {"cext/flow/context/role.pxd", "cext/flow/context/role.pyx"},
    ),
}


def sources() -> Iterator[Path]:
    for path in sorted((*CEXT.rglob("*.pyx"), *CEXT.rglob("*.pxd"))):
        if CEXT / "testing" not in path.parents:
            yield path


def test_nobody_else_stores_a_mark_or_a_part_of_the_role() -> None:
    found = []
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.partition("#")[0]
            for what, (store, may) in STORES.items():
                if name not in may and store.search(code):
                    found.append(f"{name}:{number} stores {what}: {code.strip()}")
    assert found == []


def test_a_plain_store_is_seen() -> None:
    mark, role = (store for store, _ in STORES.values())
    assert mark.search("        s.append.log.marks.visible = INT64_MAX")
    assert mark.search("self.marks.appended += bytes")
    assert not mark.search("if s.log.marks.written == s.log.marks.appended:")
    assert mark.search("watermark_raise(&s.log.marks.visible, to)")
    assert role.search("s.turn.role.lease_end_ms = end_ms")
    assert role.search("r.facts |= FACT_STOPPED")
    assert not role.search("role_set(&s.turn.role, FACT_SENDS_WAIT, True)")
