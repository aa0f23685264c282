"""Pace: limits the steps in one turn of the event loop, so that other work is done between them.

A TLS handshake costs the loop a millisecond, in which nobody else is answered. However many clients
begin one at the same time, one turn does the first few, and the rest wait in the order in which
they came.

Example: pace = Pace(HANDSHAKES_A_TURN); of five tasks that wait for `await pace.step()` four go on
in the next turn and the fifth in the one after.
"""

from __future__ import annotations

import asyncio
from collections import deque

HANDSHAKES_A_TURN = 4


class Pace:
    """Owned by one event loop."""

    def __init__(self, steps_a_turn: int) -> None:
        self._steps_a_turn = steps_a_turn
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_going = False

    async def step(self) -> None:
        """Returns when the caller may do its step."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if not self._is_going:
            self._go_on_in_next_turn()
        await waiter

    def _go_on_in_next_turn(self) -> None:
        self._is_going = True
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        left = self._steps_a_turn
        while self._waiting and left > 0:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else the waiting task was cancelled
                waiter.set_result(None)
                left -= 1
        if self._waiting:
            self._go_on_in_next_turn()
        else:
            self._is_going = False
