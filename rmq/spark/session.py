"""Session: a Spark session that has what rmq needs, for the shell, examples and tests.

    spark = build_session("mine")
    spark.read.format("rmq")...

None of it is required: any session finds the source by itself. This one sets the Java, the
interpreter of the workers (the one that runs this), loopback addresses, Unix sockets between Spark
and its Python workers (a fifth faster than TCP, and a setting that only counts before the start)
and the listener that commits the offsets of queries with commitOffsets=true.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmq.spark.jdk import need_java_home

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}


def prepare_environment() -> None:
    """Sets Java and interpreter for the processes that Spark starts. What the user has set stays,
    but for a JAVA_HOME whose Java is too old."""
    os.environ["JAVA_HOME"] = str(need_java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if ROOT.name != "site-packages" and str(ROOT) not in paths:  # a checkout
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, paths)])


def build_session(
    name: str = "rmq",
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    asker: Mapping[str, Any] | None = None,
) -> Any:
    """The session, with an OffsetListener that is also its attribute rmq_listener. `asker` has the
    listener's keywords: the account and TLS settings with which it commits."""
    prepare_environment()
    from pyspark.sql import SparkSession

    from rmq.spark.listener import OffsetListener

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    listener = OffsetListener(**(asker or {}))
    session.streams.addListener(listener)
    session.rmq_listener = listener  # type: ignore[attr-defined]
    return session
