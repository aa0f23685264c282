r"""The process that callgrind counts: each stage N times, then 2 N times, with marks around them.

    valgrind --tool=callgrind --dump-before=stage_mark \
        python -m bench.stages.process DIRECTORY [STAGE ..]

At each mark callgrind writes what it has counted since the last one. What Python does between two
marks is the same for N and 2 N, so the difference is N operations and nothing else.
"""

import gc
import sys
from pathlib import Path

from bench.stages.table import STAGES
from cext.testing.stage_loops import stage_mark

WARM_UP = 2  # times N: tables are filled, pages touched, shapes known


def main(directory: Path, names: list[str]) -> None:
    gc.disable()
    for name in names or list(STAGES):
        folder = directory / name
        folder.mkdir()
        case = STAGES[name]
        run = case.open(folder)
        once, twice = case.operations, 2 * case.operations
        run(WARM_UP * once)
        stage_mark()
        run(once)
        stage_mark()
        run(twice)
        stage_mark()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
