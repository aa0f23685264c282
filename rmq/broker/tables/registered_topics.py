"""Registered topics: the topics as the reactor and the name servers know them.

The table of topics (topics.py) may be ahead of its file; this one never is. A change comes here
when the file holds it; it goes to the reactor and gives the table a new version, all in one turn of
the loop. So version and table that are taken together belong together. Name servers need that: a
name server skips a table whose version it has, and would never take a change that was sent under
the version before.

    registered.put({"t": TopicConfig("t"), "gone": None})      version 7 -> 8
    registered.version.members(), registered.all()        8, the table with "t" and without "gone"

The version starts with the counter of the file and the time of the start, so no start repeats the
version of another.
"""

import logging
from collections.abc import Callable, Mapping

from rmq.broker.core_seam import TopicCalls
from rmq.broker.tables.data_version import DataVersion
from rmq.broker.tables.topic_config import TopicConfig
from rmq.config import Settings

log = logging.getLogger("rmq.broker.registered_topics")

LOG_MAX = 2**63 - 1


class RegisteredTopics:
    """Owned by the table of topics."""

    def __init__(self, settings: Settings, core: TopicCalls) -> None:
        self._settings = settings
        self._core = core
        self._topics: dict[str, TopicConfig] = {}
        self._refused: dict[str, TopicConfig] = {}  # topics that the reactor has refused
        self.version = DataVersion()
        self.on_put: Callable[[str], None] = lambda name: None  # the reactor has got the topic
        self.on_remove: Callable[[str], None] = lambda name: None

    def get(self, name: str) -> TopicConfig | None:
        return self._topics.get(name)

    def all(self) -> dict[str, TopicConfig]:
        return dict(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def put(
        self, changes: Mapping[str, TopicConfig | None], kept_from: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """Takes over new, changed and deleted (None) topics. A topic that the reactor refuses is
        logged and left to register_refused(). Returns, for each deleted topic that had messages,
        where the log ended at the deletion. kept_from: log offsets from which on messages may
        belong to a newer topic of the same name."""
        self.version.advance()
        kept_from = kept_from or {}
        ends: dict[str, int] = {}
        for name, topic in changes.items():
            self._refused.pop(name, None)
            if topic is None:
                if self._topics.pop(name, None) is not None:
                    end = self._core.remove_topic(name.encode(), kept_from.get(name, LOG_MAX))
                    if end is not None:
                        ends[name] = end
                    self.on_remove(name)
                continue
            try:
                self._put(topic)
            except Exception as error:
                self._refused[name] = topic
                log.error("the reactor does not take topic %s: %s", name, error)
            else:
                self._topics[name] = topic
        return ends

    def register_refused(self, name: str) -> bool:
        """Tries again to put a topic that the reactor has refused; raises its error when it still
        refuses. False when the reactor has not refused the topic."""
        topic = self._refused.get(name)
        if topic is None:
            return False
        self._put(topic)
        self.put({name: topic})
        return True

    def register_again(self, *names: str) -> None:
        """Gives topics to the reactor again, in case it has lost them."""
        for name in names:
            self._put(self._topics[name])

    def permission_changed(self) -> None:
        """Gives reactor and name servers all topics anew, as brokerPermission has changed."""
        self.version.advance()
        self.register_again(*self._topics)

    def _put(self, topic: TopicConfig) -> None:
        """Gives the topic to the reactor, its permission masked by brokerPermission: pulls of
        unreadable topics then go to control."""
        self._core.put_topic(
            topic.name.encode(),
            topic.read_queues,
            topic.write_queues,
            topic.masked(self._settings.brokerPermission).perm,
            int(topic.order),
        )
        self.on_put(topic.name)
