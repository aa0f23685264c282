"""Broker samples: those of every registered broker, for `rmq top` and `rmq broker status`.

    samples = BrokerSamples(cluster)
    samples.poll()        [Figures, ..] since the last poll, also for brokers that tell none

A broker that does not answer is "unreachable", one that refuses this account "refused"; the row's
`problem` says why.

    sample_of(cluster, entry, address, "tables")    one broker's sample, and RocketMQ's table

Of a broker that is not rmq's, or of an older one, the sample has what RocketMQ's runtime table has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import BrokerEntry, Cluster, ClusterView
from rmq.errors import ProtocolError, RemoteError, UnreachableError
from rmq.observe.rates import Figures, figures, from_table, refused, unreachable
from rmq.observe.sample import Sample, decode


class BrokerSamples:
    """Remembers the last sample of every broker."""

    def __init__(self, cluster: Cluster, told: Callable[[RemoteError], str] = str) -> None:
        """told: a refusal in words, with what helps."""
        self._cluster = cluster
        self._told = told
        self._last: dict[str, Sample] = {}

    def poll(self) -> list[Figures]:
        """One row per address, in the order of the names."""
        rows = []
        seen: dict[str, Sample] = {}
        for entry in self._cluster.brokers():
            for address in [entry.addresses[number] for number in sorted(entry.addresses)]:
                try:
                    sample, _ = sample_of(self._cluster, entry, address)
                except RemoteError as error:
                    rows.append(refused(entry.name, address, self._told(error)))
                    continue
                except (UnreachableError, ProtocolError) as error:
                    why = str(error).removeprefix(f"{address}: ")
                    rows.append(unreachable(entry.name, address, why))
                    continue
                seen[address] = sample
                rows.append(figures(self._last.get(address), sample))
        self._last = seen
        return rows

    def newest(self) -> list[Sample]:
        """The samples of the last poll, without those of brokers that are not rmq's."""
        return [sample for sample in self._last.values() if sample.pools]


def sample_of(
    cluster: ClusterView, entry: BrokerEntry, address: str, detail: str = "brief"
) -> tuple[Sample, dict[str, str]]:
    """The broker's sample and its runtime table; detail: how much rmq's sample shall have."""
    single = BrokerEntry(entry.name, entry.cluster, {0: address})
    table = admin.runtime_info(cluster, single, detail)
    text = table.pop("rmqSample", None)
    if text is None:
        now = str(int(time.time() * 1000))
        return from_table(entry.name, address, table | {"rmqNowMs": now}), table
    try:
        return decode(text), table
    except ValueError as error:
        raise ProtocolError(f"{address}: a sample that cannot be read: {error}") from None


def recent_rates(table: Mapping[str, str]) -> tuple[float | None, float | None]:
    """Messages in and out per second, as the broker counts them over its last ten seconds."""
    out = table.get("getTransferredTps") or table.get("getTransferedTps") or ""
    return first_number(table.get("putTps", "")), first_number(out)


def first_number(text: str) -> float | None:
    """The first of RocketMQ's three rates (of 10 s, 1 min and 10 min); None: there is none."""
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return None
