"""Brokers: questions to name servers and brokers, asked in threads, as one account or another.

    found = await brokers.ask(account, lambda cluster: cluster.topics())

The blocking client waits for its answers, so a question runs in a thread; at most THREADS questions
run at a time, however many browsers ask. A view is a Cluster with its connections. It belongs to
one account, is used by one question at a time, and is kept for the next. All views share the
knowledge of which brokers do not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

from rmq.base import clock
from rmq.client.blocking.cluster import GONE_S, Cluster
from rmq.client.connection.replicas import Replicas
from rmq.errors import UnreachableError
from rmq.format.signature import Credentials

T = TypeVar("T")
Account = Credentials | None  # None: the account of the console itself, if it has one
THREADS = 8
IDLE_S = 30.0  # a view that was not used for so long is closed
IDLE_MAX = 32  # views


class Brokers:
    """Owned by the event loop; a view is owned by the thread that uses it."""

    def __init__(self, namesrv: str, threads: int = THREADS) -> None:
        self._namesrv = namesrv
        self._limiter = anyio.CapacityLimiter(threads)
        self._replicas = Replicas(GONE_S)
        self._idle: list[tuple[float, Account, Cluster]] = []  # the longest unused first

    async def ask(self, account: Account, question: Callable[[Cluster], T]) -> T:
        """Asks the question; returns or raises what it does."""
        view = self._taken(account)
        is_well = False
        try:
            answer = await anyio.to_thread.run_sync(question, view, limiter=self._limiter)
            is_well = True
            return answer
        except UnreachableError:
            raise
        except Exception:
            is_well = True  # after a refusal the connection can be used again
            raise
        finally:
            if is_well:
                self._idle.append((clock.monotonic(), account, view))
            else:
                view.close()
            self._close_idle()

    def _taken(self, account: Account) -> Cluster:
        for at in reversed(range(len(self._idle))):
            if self._idle[at][1] == account:
                return self._idle.pop(at)[2]
        return Cluster(self._namesrv, replicas=self._replicas, account=account)

    def _close_idle(self) -> None:
        since = clock.monotonic() - IDLE_S
        while self._idle and (len(self._idle) > IDLE_MAX or self._idle[0][0] < since):
            self._idle.pop(0)[2].close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[2].close()
