"""Partial: what is asked of many brokers, where some of them may not answer.

    missing: Missing = {}
    found = admin.groups(cluster, missing)      the groups of the brokers that answer
    missing                                     {"broker-b": "10.0.0.2:10911: cannot connect (..)"}
    admin.groups(cluster)                       all of them, or UnreachableError
    require_all(missing)                        PartialError: names those that are missing

For showing, what is known is better than nothing, if it is said what is missing. For deciding it is
not: a group that the brokers of now do not have may be at the one that is away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rmq.client.blocking.cluster import BrokerEntry, ClusterView
from rmq.errors import PartialError, UnreachableError

T = TypeVar("T")
Missing = dict[str, str]  # broker name -> why it did not answer


def of_brokers(
    cluster: ClusterView, places: Iterable[tuple[str, str]], ask: Callable[[str], T],
    missing: Missing | None,
) -> list[T]:  # fmt: skip
    """ask(name) of each broker; places: names and addresses. With `missing` brokers that do not
    answer are put there. UnreachableError: none answers, or one does not and `missing` is None."""
    later: list[tuple[str, str]] = []  # silent a moment ago: asking them may cost a time limit
    found: list[T] = []
    first: UnreachableError | None = None

    def try_(name: str) -> None:
        nonlocal first
        try:
            found.append(ask(name))
        except UnreachableError as error:
            if missing is None:
                raise
            first = first or error
            missing.setdefault(name, str(error))

    for name, address in places:
        if missing is not None and cluster.replicas.is_gone(address):
            later.append((name, address))
        else:
            try_(name)
    for name, address in later:
        if not found:
            try_(name)
        elif missing is not None:
            missing.setdefault(name, f"{address}: no answer a moment ago")
    if first is not None and not found:
        raise first
    return found


@contextmanager
def left_out(missing: Missing | None, name: str) -> Iterator[None]:
    """If the broker does not answer in the block, it is put into `missing`."""
    try:
        yield
    except UnreachableError as error:
        if missing is None:
            raise
        missing.setdefault(name, str(error))


def lost(missing: Missing) -> UnreachableError:
    """For what is nowhere else, and may be at a broker that does not answer."""
    return UnreachableError("; ".join(missing.values()))


def require_all(missing: Missing) -> None:
    """PartialError, after what the others have was shown: some brokers do not answer."""
    if missing:
        texts = [f"{name}: {why}" for name, why in sorted(missing.items())]
        raise PartialError(f"what lies there alone is missing: {'; '.join(texts)}")


def of_masters(
    cluster: ClusterView, ask: Callable[[BrokerEntry], T], missing: Missing | None
) -> list[T]:
    """The same of the masters of all brokers. Those that are missing already are not asked."""
    masters = {each.name: each for each in cluster.masters() if each.name not in (missing or ())}
    if missing and not masters:
        raise lost(missing)
    places = [(name, each.master or "") for name, each in masters.items()]
    return of_brokers(cluster, places, lambda name: ask(masters[name]), missing)
