"""Broker samples: of every broker at the name servers, for `rmq top` and `rmq broker status`.

    samples = BrokerSamples(cluster)
    samples.poll()        [Figures, ..] since the last poll, unreachable ones among them

A broker that is not rmq, or an older one, shows what RocketMQ's runtime table holds.
"""

from __future__ import annotations

import time

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import BrokerEntry, Cluster
from rmq.errors import ProtocolError, RemoteError, UnreachableError
from rmq.observe.rates import Figures, figures, from_table, unreachable
from rmq.observe.sample import Sample, decode


class BrokerSamples:
    """Remembers the last sample of every broker."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._last: dict[str, Sample] = {}

    def poll(self) -> list[Figures]:
        """One row per address, in the order of the names."""
        rows = []
        seen: dict[str, Sample] = {}
        for entry in self._cluster.brokers():
            for address in [entry.addresses[number] for number in sorted(entry.addresses)]:
                try:
                    sample = self._sample(entry, address)
                except (UnreachableError, RemoteError, ProtocolError):
                    rows.append(unreachable(entry.name, address))
                    continue
                seen[address] = sample
                rows.append(figures(self._last.get(address), sample))
        self._last = seen
        return rows

    def newest(self) -> list[Sample]:
        """The samples of the last poll; brokers that are not rmq's give none."""
        return [sample for sample in self._last.values() if sample.pools]

    def _sample(self, entry: BrokerEntry, address: str) -> Sample:
        single = BrokerEntry(entry.name, entry.cluster, {0: address})
        table = admin.runtime_info(self._cluster, single, "brief")
        text = table.get("rmqSample")
        if text is None:
            now = str(int(time.time() * 1000))
            return from_table(entry.name, address, table | {"rmqNowMs": now})
        try:
            return decode(text)
        except ValueError as error:
            raise ProtocolError(f"{address}: a sample that cannot be read: {error}") from None
