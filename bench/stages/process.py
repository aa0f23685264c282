r"""The process that callgrind counts: each stage N times, then 2 N times, with marks around them.

    valgrind --tool=callgrind --instr-atstart=no --dump-before=stage_mark \
        python -m bench.stages.process DIRECTORY [STAGE ..]

Callgrind begins to count when all stages are made and warm, because the start of Python and its
imports would be most of the instructions. At each mark it writes what it has counted since the
last mark. What Python does between two marks is the same for N and 2 N operations, so the
difference is N operations and nothing else.
"""

import gc
import sys
from pathlib import Path

from bench.stages.table import STAGES, Case
from bench.stages.turns import Run
from cext.testing.stage_loops import stage_counting_start, stage_mark

WARM_UP = 2  # times N operations: then tables are filled, pages touched, shapes known


def main(directory: Path, names: list[str]) -> None:
    gc.disable()
    cases = [(name, STAGES[name]) for name in names or STAGES]
    runs = [(warm(directory / name, case), case.operations) for name, case in cases]
    stage_counting_start()
    for run, once in runs:
        twice = 2 * once
        stage_mark()
        run(once)
        stage_mark()
        run(twice)
        stage_mark()


def warm(folder: Path, case: Case) -> Run:
    folder.mkdir()
    run = case.open(folder)
    run(WARM_UP * case.operations)
    return run


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
