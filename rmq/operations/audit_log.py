"""Audit log: which users asked the servers of a cluster for what, and whether it was allowed.

    found = audit_log(cluster, AuditQuery(count=50, user="alice"))
    found.lines                 of all brokers and name servers, the newest first
    found.older_than_ms         there are more lines before this time; None: these are all
    found.problems              which servers show no log, and why

If servers write to one file, as the shards of a broker do, its lines are taken once. RocketMQ's
servers keep no such log, and answer that they do not support the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rmq.client.blocking.cluster import ClusterView
from rmq.codes import RequestCode
from rmq.format.audit_log import AuditLine, AuditQuery, AuditTail, decode_tail
from rmq.operations.account_answers import account_answers

NOT_SUPPORTED = "it has no audit log to show; only servers of rmq have one"


class AuditLog(msgspec.Struct):
    lines: list[AuditLine]
    older_than_ms: int | None = None
    is_whole: bool = True  # False: the oldest lines are only in the servers' files
    problems: list[str] = []


def audit_log(cluster: ClusterView, query: AuditQuery, controllers: Sequence[str] = ()) -> AuditLog:
    """RemoteError: no server shows its log; it has all their reasons. UnreachableError: no server
    can be reached."""
    answers = account_answers(
        cluster, controllers, RequestCode.GET_AUDIT_LOG, query.fields(), decode_tail, NOT_SUPPORTED
    )
    tails: dict[str, AuditTail] = {}
    for tail in answers.by_address.values():
        tails.setdefault(tail.file, tail)
    found = merged(tails.values(), query.count)
    found.problems = answers.problems
    return found


def merged(tails: Iterable[AuditTail], count: int) -> AuditLog:
    """The newest lines of all tails. Lines older than some that a tail has left out are dropped."""
    tails = list(tails)
    ends = [each.lines[-1].time_ms for each in tails if each.has_more and each.lines]
    lines = sorted((line for each in tails for line in each.lines), key=lambda line: -line.time_ms)
    if len(lines) > count:
        ends.append(lines[count - 1].time_ms)
    older_than = max(ends, default=None)
    kept = [line for line in lines if older_than is None or line.time_ms >= older_than]
    return AuditLog(kept, older_than, all(each.is_whole for each in tails))
