"""Reactor watch: says when the reactor has stopped taking turns, and ends what it holds up.

    watch = ReactorWatch(core, limit_s=20)
    watch.end = ..              called with the reason once it is stuck; else that is only said
    watch.start()               a thread of its own, until stop()

The reactor takes a turn every half second even when nothing happens. Once in LOOK_S the thread
reads how many it has taken, without its help. That no turn was taken

    for SLOW_S      is logged, with the step that it is in and what the kernel says of its thread
    for limit_s     (rmqStuckReactorSeconds) is taken for stuck: heartbeats to the controller end,
                    so another replica is elected, and the process is ended for a new start

A reactor that waits for a disk is left alone, however long: no signal ends such a call, a new
process would wait for the same disk, and it goes on by itself when the disk does.

It is a thread because the event loop waits for the reactor in every call of the core: it stands
still as well, within seconds, and heartbeats, leases and the beats to a supervisor with it. What is
counted are looks, not time: a process that is stopped (SIGSTOP), or starved by others, looks less,
and is not taken for stuck when it goes on.

Example: step `write` sleeps in a lock that nobody gives back. After 5 s a warning, after 20 s
"stuck" and the end; the supervisor or systemd starts it again, and the log is recovered.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from rmq.broker.core_seam import StatCalls
from rmq.system.threads import REACTOR, Thread, named_thread

LOOK_S = 1.0
SLOW_S = 5

log = logging.getLogger("rmq.broker.reactor_watch")


def own_reactor() -> Thread | None:
    return named_thread(os.getpid(), REACTOR)


def _only_said(why: str) -> None:
    """Who serves in a process of its own has it ended (rmq/node/served_broker.py)."""
    log.critical("%s", why)


class ReactorWatch:
    """look() is its thread's; what it found, anybody may read."""

    def __init__(
        self, core: StatCalls, limit_s: int, thread: Callable[[], Thread | None] = own_reactor
    ) -> None:
        self.end: Callable[[str], None] = _only_said
        self.standing_s = 0  # it has taken no turn for so long
        self._core = core
        self._limit_s = limit_s
        self._state = thread
        self._turns = -1
        self._disk_looks = 0  # of those that it stands
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_slow(self) -> bool:
        return self.standing_s >= SLOW_S

    @property
    def is_stuck(self) -> bool:
        return self.standing_s >= self._limit_s

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="rmq-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """From here on it does not look at the core."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        self.standing_s = 0

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """Once in LOOK_S."""
        turns, step = self._core.reactor_turn()
        if turns != self._turns:
            if self.is_slow:
                log.warning("the reactor goes on: it took no turn for %d s", self.standing_s)
            self._turns, self.standing_s, self._disk_looks = turns, 0, 0
            return
        self.standing_s += 1
        state = self._state()
        self._disk_looks += state is not None and state.waits_for_disk
        if self.standing_s == SLOW_S:
            log.warning("%s", self._said(step, state))
        if not self.is_stuck:
            return
        waits = 2 * self._disk_looks > self.standing_s
        if waits and self.standing_s == self._limit_s:
            log.critical("%s; it is left alone until the disk answers", self._said(step, state))
        if not waits and self._core.reactor_turn()[0] == turns:  # still
            self.end(f"stuck: {self._said(step, state)}")

    def _said(self, step: bytes, state: Thread | None) -> str:
        text = f"the reactor has taken no turn for {self.standing_s} s, in step {step.decode()}"
        return text if state is None else f"{text}: its thread {state}"
