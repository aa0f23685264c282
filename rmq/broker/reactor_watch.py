"""Reactor watch: says when the reactor has stopped taking turns, and ends what it holds up.

    watch = ReactorWatch(core.reactor_turn, limit_s=20)
    watch.end = ..              called with the reason once it is stuck; else that is only said
    watch.start()               a thread of its own, until stop()

The reactor takes a turn every half second even when nothing happens. Once in POLL_S the thread
reads how many it has taken, without its help. That no turn was taken

    for SLOW_S      is logged, with the step that it is in and what the kernel says of its thread
    for limit_s     (rmqStuckReactorSeconds; 0: nobody looks) is taken for stuck: heartbeats to the
                    controller end, so another replica is elected, and the process is ended for a
                    new start

A reactor that waits for a disk is left alone, however long: no signal ends such a call, a new
process would wait for the same disk, and it goes on by itself when the disk does. So it is stuck
only when it was not seen to wait for one for limit_s. Its heartbeats end nevertheless.

It is a thread because the event loop waits for the reactor in every call of the core: it stands
still as well, within seconds, and heartbeats, leases and the beats to a supervisor with it. What is
counted are looks, not time: a process that is stopped (SIGSTOP), or starved by others, looks less,
and is not taken for stuck when it goes on. Nor does a look count at which the reactor alone is held
by a debugger, or could run and was given no time of a processor. The thread waits for no disk:
others say what it has to say (async_logger.py).

While a log is opened anew there is no reactor, and nothing stands. The thread that opens it is
watched in the same way meanwhile, with its steps for turns, and ended by nobody here
(rmq/broker/status/store_reopening.py).

Example: step `write` sleeps in a lock that nobody gives back. After 5 s a warning, after 20 s
"stuck" and the end; the supervisor or systemd starts it again, and the log is recovered.
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
    """What is said of what is watched. `stands`: {seconds}, {step} and {thread} are put in."""

    stands: str
    goes_on: str


REACTOR_WORDS = Words(
    "the reactor has taken no turn for {seconds} s, in step {step}: its thread {thread}",
    "the reactor goes on: it took no turn for {seconds} s",
)


def own_reactor() -> Thread | None:
    return named_thread(os.getpid(), REACTOR)


class ReactorWatch:
    """look() is its thread's; what it found, anybody may read."""

    def __init__(
        self,
        turn: Callable[[], tuple[int, bytes]],
        limit_s: int,
        thread: Callable[[], Thread | None] = own_reactor,
        words: Words = REACTOR_WORDS,
    ) -> None:
        """turn: how many were taken, and in which step it is; limit_s: 0 for no watch."""
        self.end: Callable[[str], None] = self._only_say
        self.standing_s = 0  # it has taken no turn for so long
        self.async_log = AsyncLogger()
        self._turn = turn
        self._words = words
        self._limit_s = limit_s
        self._state = thread
        self._turns = -1
        self._seen: Thread | None = None  # at the look before, since it stands
        self._off_disk_s = 0  # of standing_s, since it was last seen to wait for a disk
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_slow(self) -> bool:
        return self.standing_s >= SLOW_S

    @property
    def is_out(self) -> bool:
        """It serves nobody, whatever it waits for: another replica is to lead."""
        return 0 < self._limit_s <= self.standing_s

    @property
    def is_stuck(self) -> bool:
        """And waits for no disk: a new process may do better."""
        return 0 < self._limit_s <= self._off_disk_s

    def start(self) -> None:
        if self._limit_s:
            self._thread = threading.Thread(target=self._run, name="rmq-watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """From here on it does not look."""
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
        """Once in POLL_S."""
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
        if self.is_stuck and self._turn()[0] == turns:  # still
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
        """Who serves in a process of its own has it ended (rmq/node/served_broker.py)."""
        if self._off_disk_s == self._limit_s:  # once
            self.async_log.say(log.critical, "%s", why)
