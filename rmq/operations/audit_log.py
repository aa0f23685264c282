"""Audit log: who asked the servers of a cluster for what, and whether he was let in.

    found = audit_log(cluster, AuditQuery(count=50, user="alice"))
    found.lines                 of all brokers and name servers, the newest first
    found.older_than_ms         before it there are more; None: these are all
    found.problems              who does not tell, and why

Servers that write to one file, as the shards of a broker, tell of it once. RocketMQ's servers keep
no such log, and say that they do not support the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rmq.client.blocking.accounts import account_servers, is_without_accounts
from rmq.client.blocking.cluster import ClusterView
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, RemoteError, UnreachableError
from rmq.format.audit_log import AuditLine, AuditQuery, AuditTail, decode_tail
from rmq.operations.askers import is_unknown_asker

Failure = RemoteError | UnreachableError | ProtocolError
NOT_SUPPORTED = "it keeps no audit log that can be asked for: rmq's servers do"


class AuditLog(msgspec.Struct):
    lines: list[AuditLine]
    older_than_ms: int | None = None
    is_whole: bool = True  # else what is longest ago stands in files alone
    problems: list[str] = []


def audit_log(cluster: ClusterView, query: AuditQuery, controllers: Sequence[str] = ()) -> AuditLog:
    """RemoteError: no server tells, with all their reasons. UnreachableError: none answers."""
    tails: dict[str, AuditTail] = {}
    failures: dict[str, Failure] = {}
    for address in account_servers(cluster, controllers):
        try:
            reply = cluster.call(address, RequestCode.GET_AUDIT_LOG, query.fields())
            tail = decode_tail(reply.body)
        except (RemoteError, UnreachableError, ProtocolError) as error:
            failures[address] = error
        else:
            tails.setdefault(tail.file, tail)
    if not tails and failures:
        raise _why_nobody_tells(failures)
    known = {
        address: error for address, error in failures.items()
        if not (tails and address in cluster.name_servers and isinstance(error, RemoteError)
                and is_without_accounts(error))
    }  # fmt: skip
    found = merged(tails.values(), query.count)
    found.problems = _problems(known)
    return found


def merged(tails: Iterable[AuditTail], count: int) -> AuditLog:
    """The newest lines of all; none that is older than what a tail has left out."""
    tails = list(tails)
    ends = [each.lines[-1].time_ms for each in tails if each.has_more and each.lines]
    lines = sorted((line for each in tails for line in each.lines), key=lambda line: -line.time_ms)
    if len(lines) > count:
        ends.append(lines[count - 1].time_ms)
    older_than = max(ends, default=None)
    kept = [line for line in lines if older_than is None or line.time_ms >= older_than]
    return AuditLog(kept, older_than, all(each.is_whole for each in tails))


def _why_nobody_tells(failures: Mapping[str, Failure]) -> Failure:
    refusals = [error for error in failures.values() if isinstance(error, RemoteError)]
    if not refusals:
        return next(iter(failures.values()))
    for error in refusals:
        if is_unknown_asker(error):
            return error
    return RemoteError(refusals[0].code, "; ".join(_problems(failures)))


def _problems(failures: Mapping[str, Failure]) -> list[str]:
    """One line for each cause, with whom it is about."""
    by_text: dict[str, list[str]] = {}
    for address, error in failures.items():
        by_text.setdefault(_text(error), []).append(address)
    return [f"{', '.join(addresses)}: {text}" for text, addresses in by_text.items()]


def _text(error: Failure) -> str:
    if not isinstance(error, RemoteError):
        return str(error)
    if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return NOT_SUPPORTED
    return error.remark.strip()
