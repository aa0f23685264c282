"""Reactor watch: notices when the reactor takes no turns any more, and ends a stuck process.

    watch = ReactorWatch(core.reactor_turn, limit_s=20)
    watch.end = ..              called with the reason once the reactor is stuck; else it is logged
    watch.start()               starts a thread, which runs until stop()

The reactor takes a turn at least every half second, even when nothing happens. Every POLL_S the
watch's thread reads how many turns were taken, without the reactor's help. When none was taken

    for SLOW_S      a warning is logged, with the reactor's step and the kernel's state of its
                    thread
    for limit_s     (rmqStuckReactorSeconds; 0: no watch) the reactor is taken for stuck: heartbeats
                    to the controller end, so that another replica is elected, and the process is
                    ended so that a new one starts

A reactor that waits for a disk is left alone, however long it waits: no signal ends such a call, a
new process would wait for the same disk, and the reactor goes on by itself when the disk does. So
it counts as stuck only when it was not seen waiting for a disk for limit_s. Its heartbeats end
nevertheless.

The watch has a thread because the event loop waits for the reactor in every call of the core: when
the reactor hangs, the loop hangs within seconds, too, and with it heartbeats, leases and the beats
to a supervisor. The watch counts looks, not time: a process that is stopped (SIGSTOP), or starved
by others, looks less often, and is not taken for stuck when it goes on. Nor does a look count at
which only the reactor is held by a debugger, or could run but got no processor time. The watch's
thread never waits for a disk: another thread writes its log lines (async_logger.py).

While a log is opened anew there is no reactor, and this watch does not count. The thread that opens
the log is watched in the same way, its steps counting as turns, but it is never ended from here
(rmq/broker/status/store_reopening.py).

Example: step `write` sleeps in a lock that nobody gives back. After 5 s there is a warning, after
20 s the line "stuck" and the end of the process; the supervisor or systemd starts it again, and the
log is recovered.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from rmq.broker.async_logger import AsyncLogger
from rmq.system.threads import REACTOR, RUNS, Thread, named_thread

POLL_S = 1.0
SLOW_S = 5

log = logging.getLogger("rmq.broker.reactor_watch")


class Words(NamedTuple):
    """Texts of log lines about the thread that is watched. {seconds}, {step} and {thread} are
    filled in in `stands`."""

    stands: str
    goes_on: str


REACTOR_WORDS = Words(
    "the reactor has taken no turn for {seconds} s, in step {step}: its thread {thread}",
    "the reactor goes on: it took no turn for {seconds} s",
)


def own_reactor() -> Thread | None:
    return named_thread(os.getpid(), REACTOR)


class ReactorWatch:
    """look() runs in the watch's own thread; any thread may read what it found."""

    def __init__(
        self,
        turn: Callable[[], tuple[int, bytes]],
        limit_s: int,
        thread: Callable[[], Thread | None] = own_reactor,
        words: Words = REACTOR_WORDS,
    ) -> None:
        """turn: returns how many turns were taken, and the present step; limit_s: 0: no watch."""
        self.end: Callable[[str], None] = self._only_say
        self.standing_s = 0  # for how long no turn was taken
        self.async_log = AsyncLogger()
        self._turn = turn
        self._words = words
        self._limit_s = limit_s
        self._state = thread
        self._turns = -1
        self._seen: Thread | None = None  # the thread at the look before, while it takes no turns
        self._off_disk_s = 0  # the part of standing_s since it was last seen waiting for a disk
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_slow(self) -> bool:
        return self.standing_s >= SLOW_S

    @property
    def is_out(self) -> bool:
        """The reactor serves nobody, whatever it waits for: another replica should lead."""
        return 0 < self._limit_s <= self.standing_s

    @property
    def is_stuck(self) -> bool:
        """The reactor hangs and does not wait for a disk: a new process may do better."""
        return 0 < self._limit_s <= self._off_disk_s

    def start(self) -> None:
        if self._limit_s:
            self._thread = threading.Thread(target=self._run, name="rmq-watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends the watch's thread."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if self._turn()[0] != self._turns:
            self._goes_on()
        self.async_log.stop()
        self._stands_no_more()

    def _run(self) -> None:
        while not self._stopped.wait(POLL_S):
            self.look()

    def look(self) -> None:
        """One look, every POLL_S."""
        turns, step = self._turn()
        if turns != self._turns:
            self._goes_on()
            self._turns = turns
            self._stands_no_more()
            return
        thread = self._state()
        if thread is None:
            self._stands_no_more()
            return
        before, self._seen = self._seen, thread
        starves = thread.state == RUNS and before is not None and not thread.has_run_since(before)
        if not (starves or thread.is_held_back):
            self._count(step, thread)
        if self.is_stuck and self._turn()[0] == turns:  # no turn was taken during this look
            self.end(f"stuck: {self._said(step, thread)}")

    def _count(self, step: bytes, thread: Thread) -> None:
        self.standing_s += 1
        self._off_disk_s = 0 if thread.waits_for_disk else self._off_disk_s + 1
        if self.standing_s == SLOW_S:
            self.async_log.say(log.warning, "%s", self._said(step, thread))
        if self.standing_s == self._limit_s and not self.is_stuck:
            text = "%s; it is left alone until the disk answers"
            self.async_log.say(log.critical, text, self._said(step, thread))

    def _goes_on(self) -> None:
        if self.is_slow:
            text = self._words.goes_on.format(seconds=self.standing_s)
            self.async_log.say(log.warning, "%s", text)

    def _stands_no_more(self) -> None:
        self.standing_s = self._off_disk_s = 0
        self._seen = None

    def _said(self, step: bytes, thread: Thread) -> str:
        return self._words.stands.format(seconds=self.standing_s, step=step.decode(), thread=thread)

    def _only_say(self, why: str) -> None:
        """The default of `end`; a serving process sets one that ends it (served_broker.py)."""
        if self._off_disk_s == self._limit_s:  # once
            self.async_log.say(log.critical, "%s", why)
