"""The Spark guide's program, as it stands, in a fresh session of the user's own."""

import os
import re
import subprocess
import sys
from pathlib import Path

from support.broker_process import BrokerProcess
from support.pages import DOCS, blocks_of
from support.source_tree import ROOT
from support.spark_topics import fill


def test_the_program_of_the_guide_runs_as_it_stands(
    broker: BrokerProcess, spark_defaults: dict[str, str], tmp_path: Path
) -> None:
    (program,) = blocks_of(DOCS / "spark-guide.md", "py")
    fill(broker, "greetings", {0: [b"hello"] * 3, 1: [b"hello again"]}, tags="shell")
    # As when the environment is activated; nothing that other tests have set.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("PYSPARK", "SPARK"))}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:9876", broker.namesrv)],
        cwd=tmp_path, capture_output=True, text=True, timeout=240,
        env={**environment, **spark_defaults, "PYTHONPATH": str(ROOT), "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"\|\s*shell\|\s*4\|", done.stdout)
    assert '{"greeting":"hello","count":3}' in done.stdout.replace(" ", "")
