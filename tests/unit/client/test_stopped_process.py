"""A client process that stands still longer than its requests may take: nothing is lost by that.

It is stopped here by SIGSTOP; a machine that is paused or swaps has the same effect. The answers
lie in the socket meanwhile, and the connection is as good as before.

How long a process stands still is measured by the machine's time, not by a clock that a test drives
(machine_us of cext/base/clock.pxd). So these tests sleep.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from support.consuming import create
from support.scripted_broker import ScriptedBroker
from support.source_tree import ROOT
from support.waiting import HANG_S

from rmq.format.remoting import Command
from rmq.pytest_plugin import RunningBroker

STANDS_STILL_S = 8.0  # longer than send_msg_timeout, which is 6 s

SENDER = """
import collections, json, sys, threading
from rmq import Message, Producer

address, topic, together = sys.argv[1:]
ends, enough = [], threading.Event()      # several threads call back
threading.Thread(target=lambda: (sys.stdin.readline(), enough.set()), daemon=True).start()

def called(result, error):
    ends.append("ok" if error is None else type(error).__name__)

with Producer(
    "stopped", namesrv_addr=address, auto_batch=together == "True", send_msg_timeout=6_000,
    # What a busy machine makes wait beside the stop stays below the time-out.
    enable_backpressure_for_async_mode=True, back_pressure_for_async_send_num=2_000,
) as producer:
    sent = 0
    while not enough.is_set():
        producer.send_async(Message(topic, b"x" * 128), called)
        sent += 1
        if sent == 20_000:
            print("sending", flush=True)
    assert producer.flush(60_000)
    print(json.dumps({"sent": sent, "ends": collections.Counter(ends)}), flush=True)
"""


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def sender_stopped(broker: RunningBroker, script: Path, together: bool) -> dict[str, Any]:
    """Stops a process that sends for a while. Returns its final report."""
    topic = f"stopped-{together}"
    create(broker.namesrv_addr, topic, 4)
    with subprocess.Popen(
        [sys.executable, str(script), broker.namesrv_addr, topic, str(together)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
    ) as sender:  # fmt: skip
        assert sender.stdin is not None and sender.stdout is not None
        assert sender.stdout.readline() == "sending\n"
        sender.send_signal(signal.SIGSTOP)
        time.sleep(STANDS_STILL_S)
        sender.send_signal(signal.SIGCONT)
        sender.stdin.write("enough\n")
        sender.stdin.flush()
        found: dict[str, Any] = json.loads(sender.stdout.readline())
    return found


CALLER = """
import sys
from cext.client.engine import Engine
from cext.client.request import encode_request

engine = Engine()
engine.start()
reply = engine.call(engine.link("127.0.0.1", int(sys.argv[1])), encode_request(200, {}), 6_000)
print(reply.code, flush=True)
"""


def caller_stopped() -> str:
    """Stops a process while its engine sleeps. Returns the code of the answer that it reports
    then."""
    stopped: Queue[int] = Queue()

    def answers_after_a_stop(command: Command) -> list[Command]:
        # The request may come before Popen has returned here.
        caller_id = stopped.get(timeout=HANG_S)
        os.kill(caller_id, signal.SIGSTOP)
        time.sleep(6.4)
        os.kill(caller_id, signal.SIGCONT)
        time.sleep(0.05)  # the time that the engine has before the answer comes
        return [command.reply(0)]

    with ScriptedBroker(answers_after_a_stop) as broker:
        command = [sys.executable, "-c", CALLER, broker.address.rpartition(":")[2]]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment()
        ) as caller:
            stopped.put(caller.pid)
            assert caller.stdout is not None
            return caller.stdout.read()


@dataclass
class Stopped:
    senders: dict[bool, dict[str, Any]]
    caller: str


@pytest.fixture(scope="module")
def stopped(broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """All of these processes, stopped at the same time: meanwhile they use no processor."""
    script = tmp_path_factory.mktemp("stopped") / "sender.py"
    script.write_text(SENDER)
    with ThreadPoolExecutor(3) as threads:
        senders = {each: threads.submit(sender_stopped, broker, script, each)
                   for each in (True, False)}  # fmt: skip
        caller = threads.submit(caller_stopped)
        return Stopped({each: end.result() for each, end in senders.items()}, caller.result())


@pytest.mark.parametrize("together", [True, False])
def test_a_process_that_stood_still_loses_no_answer(stopped: Stopped, together: bool) -> None:
    found = stopped.senders[together]
    assert found["ends"] == {"ok": found["sent"]}


def test_a_sleep_in_which_the_process_was_stopped_is_no_time_of_a_request(stopped: Stopped) -> None:
    """The engine meant to sleep until the request's end. If the process is stopped in that sleep,
    this time must not count as the request's either."""
    assert stopped.caller == "0\n"
