"""Every stage of the benchmarks runs, and notices when its operations fail."""

from pathlib import Path

import pytest

from bench.stages.table import PROPERTIES, STAGES
from bench.stages.turns import Rig, request
from cext.testing import stage_loops
from rmq.codes import RequestCode
from rmq.filters.sql92 import compile_expression


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_runs(name: str, tmp_path: Path) -> None:
    STAGES[name].open(tmp_path)(50)


def test_a_failed_operation_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="failed"):
        stage_loops.JsonHeader(b"{").run(3)
    with pytest.raises(RuntimeError, match="failed"):
        stage_loops.SqlFilterRun(compile_expression("amount > 900").program, PROPERTIES).run(3)
    with pytest.raises(RuntimeError, match="code"):
        Rig(tmp_path).run(request(RequestCode.POP_MESSAGE, consumerGroup="g"))


def test_a_gather_that_finds_too_little_is_no_measurement(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.fill(50)
    rig.driven.gather(b"orders", 0, 32, 3)
    with pytest.raises(RuntimeError, match="no 51 messages"):
        rig.driven.gather(b"orders", 0, 51, 3)
