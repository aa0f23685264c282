"""The Spark programs of README and guide, as they are printed, in a fresh session of the user's
own, in a folder of his own: rmq is found as an editable install leaves it, without PYTHONPATH."""

import re
import subprocess
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess
from support.editable_install import editable_install, without_paths
from support.pages import DOCS, blocks_of
from support.source_tree import ROOT
from support.spark_topics import fill
from support.waiting import HANG_S

GUIDE = DOCS / "spark-guide.md"


@pytest.fixture(scope="module")
def greetings(broker: BrokerProcess) -> BrokerProcess:
    fill(broker, "greetings", {0: [b"hello"] * 3, 1: [b"hello again"]}, tags="shell")
    return broker


# The program of the README begins a session, and that of the guide goes on in it, because a JVM
# costs more than either program.
@pytest.mark.parametrize(
    "pages",
    [[ROOT / "README.md", GUIDE], pytest.param([GUIDE], marks=pytest.mark.slow)],
    ids=["both", "the guide's alone"],
)
def test_the_programs_of_the_pages_run_as_they_stand(
    pages: list[Path], greetings: BrokerProcess, spark_defaults: dict[str, str], tmp_path: Path
) -> None:
    programs = "\n".join(program for page in pages for program in blocks_of(page, "py"))
    assert programs.count("SparkSession.builder.getOrCreate()") == len(pages)
    defaults = (Path(spark_defaults["SPARK_CONF_DIR"]) / "spark-defaults.conf").read_text()
    assert "codegen" not in defaults, "plans are to run as a reader's do"
    python = editable_install(tmp_path / "install")
    elsewhere = tmp_path / "work"
    elsewhere.mkdir()
    done = subprocess.run(
        [python, "-c", programs.replace("127.0.0.1:9876", greetings.namesrv)],
        cwd=elsewhere, capture_output=True, text=True, timeout=HANG_S,
        env={**without_paths(python), **spark_defaults},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(re.findall(r"\|\s*shell\|\s*4\|", done.stdout)) == len(pages)
    assert '{"greeting":"hello","count":3}' in done.stdout.replace(" ", "")
