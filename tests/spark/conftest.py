"""One Spark session, one broker with its name server for all tests of this folder."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import pytest
from support.broker_pair import SMALL, Pair
from support.broker_process import BrokerProcess, broker_process
from support.source_tree import ROOT

pytest.importorskip("pyspark", reason="needs the extra: pip install -e .[spark]")

# Frames are small here, and each plan is used once. A JVM that compiles little and does not verify
# Spark's classes is done sooner, and leaves the other processor to tests that wait for brokers. The
# JVM's usual table of symbols is too small for so many classes: a twelfth of its time was spent
# searching it.
SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto "
    "-Xmn256m -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    "-XX:+UnlockExperimentalVMOptions -XX:SymbolTableSize=262144",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}
# Making Java of each plan and compiling it pays only with more rows than these tests have. Programs
# of the pages run with it, as their readers' programs do.
PLANS_AS_THEY_ARE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def ahead_of_others() -> Iterator[None]:
    """Processes that are started in the block have priority on a busy machine, if this user may
    give it: Spark gives a worker of a stream 10 s to call back, and no setting changes that."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, before - 10)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Spark as it is installed, but without pyspark.zip, which workers would compile at each start.

    Such a start takes 1.3 s of a processor instead of 0.4, and on a busy machine more than the 10 s
    that Spark gives a worker of a stream.
    """
    import pyspark

    installed, home = Path(pyspark.__file__).parent, tmp_path_factory.mktemp("spark")
    for name in ("bin", "jars", "sbin"):
        (home / name).symlink_to(installed / name)
    return home


@pytest.fixture(scope="session")
def spark(spark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    from rmq.spark.jdk import find_java_home
    from rmq.spark.session import build_session

    assert find_java_home() is not None, "Spark needs a JDK of 17 or later: tools/need.sh jdk17"
    given = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home),
    }
    # These variables, and those that the session sets, are for the JVM that it starts. They are
    # taken back, because with another PYTHONPATH than at the beginning no broker of later tests
    # would be a fork (support/rmq_process.py).
    with patch.dict(os.environ, given), ahead_of_others():
        session = build_session(
            "tests",
            master="local[2]",
            settings={
                **SETTINGS,
                **PLANS_AS_THEY_ARE,
                "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
                "spark.sql.python.filterPushdown.enabled": "true",
            },
        )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def spark_defaults(spark_home: Path, tmp_path: Path) -> dict[str, str]:
    """Variables by which a program's own session has SETTINGS, as if they were the machine's
    defaults."""
    folder = tmp_path / "spark-conf"
    folder.mkdir()
    lines = [f"{name} {value}" for name, value in SETTINGS.items()]
    (folder / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    return {"SPARK_CONF_DIR": str(folder), "SPARK_HOME": str(spark_home)}


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("broker"), SMALL) as started:
        yield started


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """A broker of the test's own, to be killed."""
    started = Pair(tmp_path)
    try:
        yield started
    finally:
        if started.broker.process.poll() is None:
            started.kill()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test."""
    return Path(request.node.name).name.replace("[", "-").replace("]", "")[:100]
