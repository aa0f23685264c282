"""Build log check: fails when a build's log has a gcc warning or a Cython performance hint.

    tools/check_build_log.py build/build.log

Cython's "performance hint" names a nogil function that takes the interpreter's lock again after
every call to look for an exception: some 25 ns where 1 is expected, and a wait when another thread
holds the lock. Such a hint does not fail a compile even with all warnings on, so it is looked for
here. The generated C of every module in such a line is deleted: otherwise the next build, which
compiles only what changed, would not report the module again.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

COMPLAINT = re.compile(r"performance hint:|\bwarning:")
MODULE = re.compile(r"\b(cext/[\w/]+)\.(?:pyx|pxd|c):\d+")
# Not about this project's code: messages of pip and setuptools about themselves.
FOREIGN = re.compile(r"SetuptoolsDeprecationWarning|UserWarning:|pip as the 'root' user")


def complaints(log: str) -> list[str]:
    """The lines of the log that must be mended."""
    return [
        line.strip()
        for line in log.splitlines()
        if COMPLAINT.search(line) and not FOREIGN.search(line)
    ]


def main(path: str) -> int:
    found = complaints(Path(path).read_text(errors="replace"))
    for line in found:
        print(line)
        for module in MODULE.findall(line):
            Path("build/cython", module + ".c").unlink(missing_ok=True)
    if found:
        print(f"{path}: {len(found)} complaints of the compilers; the build counts as failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
