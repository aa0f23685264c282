"""Sizes: how many connections a broker has, and how many open requests.

sizes = Sizes.of(settings, masters=3, rate=50_000.0, window=1024)
sizes.check_open_files(settings, masters=3, by_tls=False, files_max=1024)
for sentence in sizes.less(settings, 1024): print(sentence)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rmq.errors import ConfigError
from rmq.load import open_files
from rmq.load.workload.settings import Settings

SEND_INTERVAL_S = 60.0  # a broker closes a connection that has been silent for two minutes
WINDOW_BYTES = 256 << 20  # of output on all connections together
HEADER_BYTES = 1024  # of a send, about


@dataclass(frozen=True)
class Sizes:
    """For one broker: as many as the file asks for, or as there is room for."""

    producers: int
    consumers: int  # of each subscription
    window: int  # open requests of a producer

    @staticmethod
    def of(settings: Settings, masters: int, rate: float, window: int) -> Sizes:
        """The sizes, if each master has an equal share of the queues, and so of the rate."""
        queues = settings.topics * settings.queues(masters) // masters
        busy = max(1, int(rate / masters * SEND_INTERVAL_S))
        producers = min(settings.producers_per_topic, busy)
        room = WINDOW_BYTES // (masters * producers) // (settings.message_size + HEADER_BYTES)
        return Sizes(
            producers=producers,
            consumers=min(settings.consumer_per_subscription, queues),
            window=max(1, min(window, room)),
        )

    def connections(self, subscriptions: int) -> int:
        return self.producers + subscriptions * self.consumers

    def check_open_files(
        self, settings: Settings, masters: int, by_tls: bool, files_max: int
    ) -> None:
        """Raises ConfigError when more than files_max files would be open."""
        subscriptions = settings.subscriptions_per_topic
        connections = masters * self.connections(subscriptions)
        # Each publisher has one loop, and each subscription one, or two if there is a backlog.
        loops = masters * (1 + subscriptions * (2 if settings.consumer_backlog_size_gb else 1))
        needed = open_files.needed(connections, loops, by_tls)
        if needed > files_max:
            raise ConfigError(
                f"{needed:,} open files are needed for {connections:,} connections, and "
                f"{files_max:,} can be open: {open_files.REMEDY}"
            )

    def less(self, settings: Settings, window: int) -> Iterator[str]:
        """Sentences about each size that is less than asked for, with the reason."""
        if self.producers < settings.producers_per_topic:
            yield (f"{self.producers:,} of {settings.producers_per_topic:,} producers: "
                   f"more would be silent for {SEND_INTERVAL_S:.0f} s and closed")  # fmt: skip
        if self.window < window:
            yield (f"{self.window:,} open requests of each producer, not {window:,}: "
                   f"{WINDOW_BYTES >> 20} MiB are for all")  # fmt: skip
