"""Accounts: requests 3001 to 3010 (users and what they may do) and 30001 (the audit log). The guard
answers them (rmq/auth/guard.py)."""

from __future__ import annotations

from typing import Protocol

from rmq.auth.guard import ANSWERED
from rmq.broker.access import Access
from rmq.broker.dispatch.request import Handler, Reply, Request


class Context(Protocol):
    """What these handlers use of the broker."""

    access: Access


async def _answer(context: Context, request: Request) -> Reply:
    return await context.access.answer(request.command, request.asker)


HANDLERS: dict[int, Handler[Context]] = dict.fromkeys(ANSWERED, _answer)
