"""The fixture rmq_broker as users of pytest get it: in a process without this project's tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.sanitized import SLOWNESS
from support.source_tree import ROOT
from support.waiting import HANG_S

from rmq.pytest_plugin import embedded_broker

USERS_TEST = """
from rmq import Admin, Message, Producer


def test_order_is_paid(rmq_broker):
    assert rmq_broker.ready_s > 0
    at = rmq_broker.namesrv_addr
    with Producer("tests", namesrv_addr=at, send_msg_timeout=60_000) as producer:
        assert producer.send(Message("orders", b"paid")).is_ok
    with Admin(namesrv_addr=at, mq_client_api_timeout=60_000) as admin:
        assert sum(each.max_offset for each in admin.queue_ranges("orders")) == 1


def test_the_broker_is_the_same_for_the_session(rmq_broker):
    with Admin(namesrv_addr=rmq_broker.namesrv_addr, mq_client_api_timeout=60_000) as admin:
        assert "orders" in admin.topics()
"""


def test_users_tests_get_a_broker(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(USERS_TEST)
    environment = {
        **os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "rmq.pytest_plugin", "-p", "no:cacheprovider",
         str(tmp_path)],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=HANG_S,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_a_broker_is_ready_after_less_than_a_second_of_work(tmp_path: Path) -> None:
    """CPU seconds of all processes of the broker. On an idle machine the start takes as long."""
    with embedded_broker(tmp_path) as broker:
        assert cpu_seconds(broker.process.pid) < SLOWNESS


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # its dead children's as well
    return own + sum(cpu_seconds(int(child)) for child in children)


def test_the_plugin_is_announced_to_pytest() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\nrmq = "rmq.pytest_plugin"' in text
