"""Handlers: the one table of the requests that this broker answers: request code -> handler.

Each module has its rows in its HANDLERS: a new request code needs a function and a row there, a new
module one more line in Contexts and in the table below.

A code that is not in the table is answered with 3 and " request type <n> not supported". The codes
of ACL 1.0 (50-54) are left out on purpose: code 3 tells a client clearly that they are not served.
"""

from collections.abc import Mapping
from typing import Protocol

from rmq.broker.core_seam import (
    ConnectionCalls,
    DelayCalls,
    GroupCalls,
    LogCalls,
    StatCalls,
    TransactionCalls,
)
from rmq.broker.dispatch.request import Handler
from rmq.broker.requests import (
    accounts,
    assignments,
    broker_config,
    changes,
    consumer_diagnosis,
    consumer_retries,
    groups,
    heartbeats,
    locks,
    maintenance,
    members,
    offset_resets,
    offsets,
    pops,
    pulls,
    queries,
    recalls,
    replicas,
    replies,
    sends,
    topics,
    transactions,
)
from rmq.broker.status import consume_stats, runtime_info


class CoreCalls(
    ConnectionCalls, DelayCalls, GroupCalls, LogCalls, StatCalls, TransactionCalls, Protocol
):
    """What handlers use of the core."""


class Contexts(
    accounts.Context,
    assignments.Context,
    broker_config.Context,
    changes.Context,
    consume_stats.Context,
    consumer_diagnosis.Context,
    consumer_retries.Context,
    groups.Context,
    heartbeats.Context,
    locks.Context,
    maintenance.Context,
    members.Context,
    offset_resets.Context,
    offsets.Context,
    pops.Context,
    pulls.Context,
    queries.Context,
    recalls.Context,
    replicas.Context,
    replies.Context,
    runtime_info.Context,
    sends.Context,
    topics.Context,
    transactions.Context,
    Protocol,
):
    """What all handlers together use; Broker fulfils it."""

    @property
    def core(self) -> CoreCalls: ...


def handler_table(*areas: Mapping[int, Handler[Contexts]]) -> dict[int, Handler[Contexts]]:
    """The rows of all areas; ValueError when two of them answer the same code."""
    table: dict[int, Handler[Contexts]] = {}
    taken: set[int] = set()  # the low 16 bits of codes, which are all that a binary header has
    for area in areas:
        for code, handler in area.items():
            if code & 0xFFFF in taken:
                raise ValueError(f"request code {code} has two handlers")
            if code in changes.TABLES:
                handler = changes.with_slaves(code, handler)
            taken.add(code & 0xFFFF)
            table[code] = handler
    return table


HANDLERS = handler_table(
    accounts.HANDLERS,
    assignments.HANDLERS,
    broker_config.HANDLERS,
    consume_stats.HANDLERS,
    consumer_diagnosis.HANDLERS,
    consumer_retries.HANDLERS,
    groups.HANDLERS,
    heartbeats.HANDLERS,
    locks.HANDLERS,
    maintenance.HANDLERS,
    members.HANDLERS,
    offset_resets.HANDLERS,
    offsets.HANDLERS,
    pops.HANDLERS,
    pulls.HANDLERS,
    queries.HANDLERS,
    recalls.HANDLERS,
    replicas.HANDLERS,
    replies.HANDLERS,
    runtime_info.HANDLERS,
    sends.HANDLERS,
    topics.HANDLERS,
    transactions.HANDLERS,
)
