"""Account answers: what the servers of a cluster that keep accounts answer to one question.

    found = account_answers(cluster, controllers, code, fields, decode)
    found.by_address            answers of all brokers and name servers, or of these controllers
    found.problems              which servers do not answer, and why: a line for each cause

A name server that asks for no accounts is left out if other servers have answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from rmq.client.blocking.accounts import account_servers, is_without_accounts
from rmq.client.blocking.cluster import ClusterView
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, RemoteError, UnreachableError
from rmq.operations.askers import is_unknown_asker

Failure = RemoteError | UnreachableError | ProtocolError
T = TypeVar("T")


class AccountAnswers(msgspec.Struct, Generic[T]):
    by_address: dict[str, T]
    problems: list[str]


def account_answers(
    cluster: ClusterView, controllers: Sequence[str], code: RequestCode,
    fields: Mapping[str, Any], decode: Callable[[bytes], T], not_supported: str = "",
) -> AccountAnswers[T]:  # fmt: skip
    """not_supported: the text for a server that does not know the code, instead of its own words.
    RemoteError: no server answers the question; it has all their reasons. UnreachableError: no
    server can be reached."""
    found: dict[str, T] = {}
    failures: dict[str, Failure] = {}
    for address in account_servers(cluster, controllers):
        try:
            found[address] = decode(cluster.call(address, code, fields).body)
        except (RemoteError, UnreachableError, ProtocolError) as error:
            failures[address] = error
    if not found and failures:
        raise _why_nobody_answers(failures, not_supported)
    known = {
        address: error for address, error in failures.items()
        if not (address in cluster.name_servers and isinstance(error, RemoteError)
                and is_without_accounts(error))
    }  # fmt: skip
    return AccountAnswers(found, _problems(known, not_supported))


def _why_nobody_answers(failures: Mapping[str, Failure], not_supported: str) -> Failure:
    refusals = [error for error in failures.values() if isinstance(error, RemoteError)]
    if not refusals:
        return next(iter(failures.values()))
    for error in refusals:
        if is_unknown_asker(error):
            return error
    return RemoteError(refusals[0].code, "; ".join(_problems(failures, not_supported)))


def _problems(failures: Mapping[str, Failure], not_supported: str) -> list[str]:
    """One line for each cause, with the addresses of the servers that it is about."""
    by_text: dict[str, list[str]] = {}
    for address, error in failures.items():
        by_text.setdefault(_text(error, not_supported), []).append(address)
    return [f"{', '.join(addresses)}: {text}" for text, addresses in by_text.items()]


def _text(error: Failure, not_supported: str) -> str:
    if not isinstance(error, RemoteError):
        return str(error)
    if not_supported and error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return not_supported
    return error.remark.strip()
