"""Topics: the table, its file, and the part that the reactor gets.

    config/topics.json    {"dataVersion":{..},"topicConfigTable":{name:{..TopicConfig..}}}

A change goes: table -> file -> reactor -> name servers -> answer. The file is topics.json together
with its journal (metadata_journal.py). Reactor and name servers are told of a change when the file
holds it (registered_topics.py), so no message is acked in a topic that a crash would forget. The
answer to a change waits for the name servers too, as long as they answer promptly.

At the start RocketMQ's system topics are put into the table with their numbers of queues and
permissions; if the file says something else of them, that is overruled, as Apache's broker does it.

Example: with autoCreateTopicEnable, a send to unknown topic "t" with defaultTopic TBW102 (8 queues,
perm 7) and defaultTopicQueueNums 4 creates "t" with min(4, 8) = 4 queues and perm 6.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from rmq import names
from rmq.base.clock import now_ms
from rmq.base.json_file import JsonFile
from rmq.broker.core_seam import LogCalls, QueueCalls, TopicCalls
from rmq.broker.siblings import TOPIC, Siblings, Stamp
from rmq.broker.tables import attributes
from rmq.broker.tables.data_version import DataVersion
from rmq.broker.tables.deleted_topics import DeletedTopics
from rmq.broker.tables.metadata_journal import Change, JournaledTable, MetadataJournal, part_of
from rmq.broker.tables.registered_topics import RegisteredTopics
from rmq.broker.tables.stamps import Stamps
from rmq.broker.tables.topic_config import TopicConfig
from rmq.codes import PERM_INHERIT, PERM_READ, PERM_WRITE, ResponseCode
from rmq.config import Settings
from rmq.errors import ProtocolError
from rmq.limits import DELAY_LEVELS_MAX, TOPIC_QUEUES_MAX
from rmq.refusal import Refusal

log = logging.getLogger("rmq.broker.topics")

_READ_WRITE = PERM_READ | PERM_WRITE
_UNIT_SUB_FLAG = 2  # topicSysFlag of a retry topic of a consumer in unit mode
REVIVE_QUEUES = 8
UNKNOWN_END = 1 << 62


class CoreCalls(LogCalls, QueueCalls, TopicCalls, Protocol):
    """What is used here of the core."""


class TopicTable:
    """Owned by the control thread."""

    def __init__(
        self, settings: Settings, core: CoreCalls, config_directory: Path, journal: MetadataJournal
    ) -> None:
        self._settings = settings
        self._file = JsonFile(
            config_directory / "topics.json",
            tables=("topicConfigTable",),
            advice="Put a copy in its place (of another broker of the cluster, too), or remove it "
            "and its .bak: then topics that have queues in consumequeue come back with these "
            "queues, readable and writable, without their attributes.",
        )
        self._core = core
        self._saver = JournaledTable(
            journal,
            self._file,
            whole=self._whole,
            part=self._part,
            on_begin=self._begun,
            on_written=self._written,
        )
        self._topics: dict[str, TopicConfig] = {}
        self._changes: set[str] = set()  # changed topics that no write has begun to save
        self._saving: dict[str, TopicConfig | None] = {}  # changes that are being written
        self._created: set[str] = set()  # made by this shard itself, and not known everywhere yet
        self._kept_from: dict[str, int] = {}  # for topics that a slave deletes: see copy()
        self._copied_at = 0  # where the log ended when a master's table was copied last
        self._unread: frozenset[str] = frozenset()  # the master has them, not this slave: copy()
        self._to_share: set[str] = set()  # the other shards are told of them when they are saved
        self._system = set(names.SYSTEM_TOPICS)
        self.registered = RegisteredTopics(settings, core)
        self._deleted = DeletedTopics(core, config_directory, journal)
        self.version = DataVersion()
        self.stamps = Stamps()
        self.siblings = Siblings()
        self.on_change: Callable[[Iterable[str]], None] = lambda changed: None

    # ---- reading

    @property
    def is_copy(self) -> bool:
        """Whether the table is a copy of the master's."""
        return bool(self._settings.brokerRole == "SLAVE")

    def get(self, name: str) -> TopicConfig | None:
        return self._topics.get(name)

    def require(self, name: str) -> TopicConfig:
        """The topic, or Refusal 17."""
        found = self._topics.get(name)
        if found is None:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name[:300]}] does not exist on this broker",
            )
        return found

    def all(self) -> dict[str, TopicConfig]:
        return dict(self._topics)

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def __len__(self) -> int:
        return len(self._topics)

    def is_system(self, name: str) -> bool:
        return name in self._system or name.startswith(names.SYSTEM_TOPIC_PREFIX)

    def system_names(self) -> list[str]:
        return sorted(self._system)

    def is_registered(self, name: str) -> bool:
        """Whether file and reactor have the topic; false while a new topic cannot be written."""
        return name in self.registered

    def members(self) -> dict[str, Any]:
        """The content of topics.json."""
        return self._whole()()

    # ---- start and stop

    def load(self) -> None:
        """Reads the file, adds the system topics, and gives all topics to the reactor."""
        self._deleted.load()
        found = self._saver.load()
        content = found or {}
        self.version = DataVersion.of(content.get("dataVersion"))
        table = content.get("topicConfigTable") or {}
        for name, members in table.items():
            try:
                topic = TopicConfig.of(members)
            except (ProtocolError, Refusal, AttributeError) as error:
                log.error("%s: topic %.300r is skipped: %s", self._file.path, name, error)
                continue
            self._topics[topic.name] = topic
            for why in attributes.faults(attributes.TOPIC, topic.attributes):
                log.error("%s: topic %s: %s", self._file.path, name, why)
        self.stamps.load(content, self._topics, now_ms())
        before = dict(self._topics)
        if found is None or not self._file.is_newest:
            self._find_by_queues()
        elif self._saver.is_torn:  # the damaged record may be that of a new topic
            self._find_by_queues(known_too=False, deleted_too=False)
        self._topics.update((topic.name, topic) for topic in self._system_topics())
        if before != self._topics:
            self.version.advance()
            self._saver.save_now()
        self.registered.version = DataVersion(self.version.counter)
        self.registered.put(self._topics)
        for name in self._topics:
            self.registered.register_refused(name)  # raises the reason, which ends the start
        log.debug("topics loaded: %d", len(self._topics))

    def _find_by_queues(self, known_too: bool = True, deleted_too: bool = True) -> None:
        """Makes topics again from their queues: those created since the .bak, or all when there is
        no file, so that the messages in the store can be reached, in the queues where they are.
        known_too: also gives topics that have fewer queues the missing ones; deleted_too: also
        topics that were deleted, whose queues a power cut may have left behind."""
        for name, queues in _queues_of(self._core.queue_names()).items():
            known = self._topics.get(name)
            if name in self._system or (known is not None and known.read_queues >= queues):
                continue
            if (known is not None and not known_too) or (not deleted_too and name in self._deleted):
                continue
            if known is None:
                self._topics[name] = TopicConfig(name, queues, queues)
            else:
                self._topics[name] = replace(
                    known, read_queues=queues, write_queues=max(queues, known.write_queues)
                )
            log.warning(
                "%s: topic %s is taken from its queues: %d, readable and writable; look whether it "
                "had other settings", self._file.path, name, queues,
            )  # fmt: skip

    async def make_for_queues(self) -> bool:
        """For a slave that will lead: makes topics of which its log has messages but that were not
        copied from the master. They are saved when this returns; returns whether there were any.
        Otherwise nobody could read these messages, and the old master, once it is back, would
        delete its own copy with the topic.

        Replay makes queues for all messages, also for those of topics that the master had deleted.
        Such a topic is not made again: its queues end below the place where this log was when the
        table was copied last, or when the topic was deleted. Topics that the master had, but that
        could not be read here, do not count as deleted."""
        lone = self._lone()
        self._forget(lone)
        found = {
            name: queues
            for name, (queues, end) in lone.items()
            if end >= self._deleted.end_of(name)
            and (end >= self._copied_at or name in self._unread)
        }
        for name, queues in found.items():
            if name not in self._topics:  # if it is there, the last attempt could not save it
                self._put(TopicConfig(name, queues, queues))
                self._stamp(name)
                log.warning(
                    "topic %s, which was not copied before its master was lost, is taken from its "
                    "queues: %d, readable and writable", name, queues,
                )  # fmt: skip
        if found:
            await self._saver.saved()
        await self._deleted.saved()
        return bool(found)

    def _lone(self) -> dict[str, tuple[int, int]]:
        """Topics that have queues but are not in the table: name -> (number of queues, log offset
        of the last message). A queue whose last entry cannot be read counts as new."""
        lone = self._core.queues_without_topic()
        ends: dict[str, int] = {}
        for topic, _, last in lone:
            name = os.fsdecode(topic)
            ends[name] = max(ends.get(name, -1), last if last >= 0 else UNKNOWN_END)
        return {
            name: (queues, ends[name])
            for name, queues in _queues_of(each[:2] for each in lone).items()
            if not self.is_system(name)
        }

    def _forget(self, lone: Mapping[str, tuple[int, int]]) -> None:
        """Notes as deleted the topics that the master had deleted before this slave was told, so
        that they stay away, also after a start."""
        self._deleted.add({
            name: self._copied_at
            for name, (_, end) in lone.items()
            if self._deleted.end_of(name) <= end < self._copied_at and name not in self._unread
        })  # fmt: skip

    async def saved(self) -> None:
        await self._saver.saved()

    async def save_whole(self) -> None:
        """Returns when topics.json holds all topics, and the journal none; StoreError."""
        await self._saver.save_whole()

    async def stop(self) -> None:
        await self.save_whole()
        await self._deleted.stop()

    def is_made(self, name: str) -> bool:
        """Whether the topic exists, and create() has returned for it."""
        return name in self._topics and name not in self._created

    # ---- changing

    async def create(self, topic: TopicConfig) -> TopicConfig:
        """Makes the topic, without a request for it, unless it exists. Returns when the file holds
        it, reactor and name servers know it, and the other shards have it too. A slave makes none:
        its master makes the topic, or has made it."""
        present = self._topics.get(topic.name)
        if self.is_copy:
            return present or topic
        if present is None:
            present = topic
            self._put(topic)
            self._stamp(topic.name)
            self._created.add(topic.name)
            log.info("topic created: %s", present)
        if topic.name in self._created or topic.name not in self.registered:
            await self._settled(topic.name)
            self._created.discard(topic.name)
        return present

    async def update(self, *topics: TopicConfig) -> None:
        """Adds or replaces topics on this shard alone, as a request says; topics that are the same
        stay as they are."""
        for topic in topics:
            if self._topics.get(topic.name) != topic:
                self._put(topic)
                self.stamps.make_own(topic.name, self.siblings.stamp())
                log.info("topic changed: %s", topic)
        await self._settled(*(topic.name for topic in topics))

    async def delete(self, name: str) -> bool:
        """Deletes the topic on this shard, with its queues. False when there is no such topic."""
        if self._topics.pop(name, None) is not None:
            self._changed(name)
            self._stamp(name)
        elif name not in self.registered:  # if it is there, the last write of the file failed
            await self._saver.saved()  # another request's deletion may not be in the file yet
            await self._deleted.saved()
            return False
        await self._settled()
        await self._deleted.saved()
        log.info("topic deleted: %s", name)
        return True

    def take(self, made: dict[str, tuple[TopicConfig, Stamp]]) -> None:
        """Takes topics that other shards have made by themselves. Topics that exist here stay as
        they are, and those that were deleted here since stay away. The file is written later: what
        a crash forgets comes again when this shard joins the others again. A slave takes none,
        because its table is its master's; when it becomes master it is given them again
        (siblings.role_changed())."""
        if self.is_copy:
            return
        news = {
            name: topic
            for name, (topic, stamp) in made.items()
            if name not in self._topics
            and not self.is_system(name)
            and self.stamps.admits(name, stamp)
        }
        if not news:
            return
        # Topics deleted here whose deletion is not in the file yet: their old queues go first.
        deleted: dict[str, None] = {name: None for name in news if name in self.registered}
        for name, topic in news.items():
            self.stamps.put(name, made[name][1])
            self._changes.discard(name)
            self._saving.pop(name, None)
            self._to_share.discard(name)
            self._topics[name] = topic
        self.version.advance()
        self._saver.changed(*news)
        if deleted:
            self._publish(deleted)
        self._publish(news)
        log.info("topics taken over from other shards: %s", ", ".join(news)[:500])

    def deleted(self) -> dict[str, list[int]]:
        """For each deleted topic, whether made anew or not, where the log ended and the time (ms)
        of the deletion."""
        return self._deleted.members()

    @property
    def deletions(self) -> int:
        """A number that changes with each deletion."""
        return self._deleted.changes

    def unseen(self, marks: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        """The master's deletions that this slave has not seen, for example because the topic was
        made anew at once."""
        return {
            name: mark
            for name, mark in self._deleted.unseen(marks).items()
            if not self.is_system(name)
        }

    async def copy(
        self,
        topics: Mapping[str, TopicConfig],
        log_end: int,
        unseen: Mapping[str, tuple[int, int]] | None = None,
        unread: Iterable[str] = (),
    ) -> None:
        """Makes this slave's table equal to the master's; returns when file and reactor have it.
        log_end: where the log here ended before the master was asked. Messages behind it, of a
        topic that is deleted here, may belong to another topic made since under the same name, so
        they stay. unseen: deletions not seen here; the log here has come past them. unread: topics
        of the master that are not among `topics`, because they cannot be read here: their queues
        stay."""
        if unseen:
            lone = self._lone()
            for name, (end, _) in unseen.items():
                is_here = name in lone or (name in self._topics and name in topics)
                if is_here and (dropped := self._core.drop_older_queues(name.encode(), end)):
                    log.info("topic made anew by the master: %s, %d older queues", name, dropped)
            self._deleted.take(unseen)
        for name in [name for name in self._topics if name not in topics]:
            if not self.is_system(name):
                del self._topics[name]
                self._kept_from[name] = log_end
                self._changed(name)
                log.info("topic deleted, as by the master: %s", name)
        for name, topic in topics.items():
            if self._topics.get(name) != topic:
                self._put(topic)
                log.info("topic as the master has it: %s", topic)
        await self._settled()
        is_first = self._copied_at == 0
        self._copied_at, self._unread = log_end, frozenset(unread)
        if is_first:  # this slave is told of later deletions
            self._forget(self._lone())
        await self._deleted.saved()

    def in_image_of(self, name: str, default_name: str, queues_requested: int) -> TopicConfig:
        """The topic that auto creation would make for a send to `name`; Refusal 17 when it may
        not."""
        default = self._topics.get(default_name)
        if default_name == names.AUTO_CREATE_TOPIC and not self._settings.autoCreateTopicEnable:
            default = None
        if default is None or not default.perm & PERM_INHERIT:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name}] does not exist, and it may not be created in the image of "
                f"{default_name[:300]!r}: create it first",
            )
        queues = max(0, min(queues_requested, default.write_queues, TOPIC_QUEUES_MAX))
        return TopicConfig(
            name,
            queues,
            queues,
            default.perm & ~PERM_INHERIT,
            filter_type=default.filter_type,
        )

    async def create_retry(self, group: str, queues: int, unit_mode: bool = False) -> TopicConfig:
        flag = _UNIT_SUB_FLAG if unit_mode else 0
        queues = max(0, min(queues, TOPIC_QUEUES_MAX))
        return await self.create(
            TopicConfig(names.retry_topic(group), queues, queues, _READ_WRITE, sys_flag=flag)
        )

    def dead_letter(self, group: str) -> TopicConfig:
        """The topic of the group's dead letters, as it is or would be created."""
        name = names.dlq_topic(group)
        return self._topics.get(name) or TopicConfig(name, 1, 1, _READ_WRITE)

    async def create_dead_letter(self, group: str) -> TopicConfig:
        return await self.create(self.dead_letter(group))

    def mark_ordered(self, ordered: Iterable[str]) -> None:
        """Marks the topics that the name server calls ordered; no topic is ever unmarked."""
        known = (name for name in ordered if name in self._topics)
        changed = [name for name in known if not self._topics[name].order]
        for name in changed:
            self._topics[name] = replace(self._topics[name], order=True)
            self._changes.add(name)
        if changed:
            self.version.advance()
            self._saver.changed(*changed)
            log.info("ordered by the name server: %s", ", ".join(sorted(changed))[:500])

    def permission_changed(self) -> None:
        """Gives reactor and name servers all topics anew, as brokerPermission has changed."""
        self.version.advance()
        self.registered.permission_changed()
        self.on_change(())

    def put_in_core(self, name: str) -> None:
        """Gives a topic to the reactor again, in case it is missing. Refusal 17: not saved yet."""
        if name not in self.registered:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name[:300]}] does not exist on this broker: it is being created",
            )
        self.registered.register_again(name)

    def _put(self, topic: TopicConfig) -> None:
        self._topics[topic.name] = topic
        self._changed(topic.name)

    def _changed(self, name: str) -> None:
        self.version.advance()
        self._changes.add(name)
        self._saver.changed(name)

    def _stamp(self, name: str) -> None:
        """Stamps the topic, so that the other shards are told that it was made or deleted here, as
        soon as that is saved."""
        if not self.is_system(name):
            self.stamps.put(name, self.siblings.stamp())
            self._to_share.add(name)

    async def _settled(self, *names: str) -> None:
        """Waits until file, reactor, name servers and other shards have all changes so far."""
        await self._saver.saved()
        for name in names:
            if self.registered.register_refused(name):
                self.on_change((name,))
        await self.siblings.shared()

    def _whole(self) -> Callable[[], dict[str, Any]]:
        """A function that makes the content of topics.json, as of now, in another thread."""
        topics, version, stamps = dict(self._topics), self.version.members(), self.stamps.members()

        def make() -> dict[str, Any]:
            table = {name: topic.members() for name, topic in topics.items()}
            return {"dataVersion": version, "topicConfigTable": table, **stamps}

        return make

    def _part(self, changed: set[str]) -> Callable[[], Change]:
        """A function that makes the journal's record of these topics."""
        topics = {name: self._topics.get(name) for name in changed}
        version, stamps = self.version.members(), self.stamps.members_of(changed)

        def make() -> Change:
            table = {name: topic and topic.members() for name, topic in topics.items()}
            members = {"topicConfigTable": table, **stamps}
            return part_of(self._file.path.name, members, dataVersion=version)

        return make

    def _begun(self) -> None:
        """Called when a write of all changes so far begins."""
        self._saving |= {name: self._topics.get(name) for name in self._changes}
        self._changes.clear()

    def _written(self) -> None:
        """Called when the changes that were being written are on the disk."""
        changes, self._saving = self._saving, {}
        if changes:
            self._publish(changes)
        for name in self._to_share & changes.keys():
            self._to_share.discard(name)
            self.siblings.changed(TOPIC, name)

    def _publish(self, changes: Mapping[str, TopicConfig | None]) -> None:
        """Gives changes to the reactor first, then to the name servers."""
        told = self._kept_from.keys() & changes.keys()
        kept_from = {name: self._kept_from.pop(name) for name in told}
        self._deleted.add(self.registered.put(changes, kept_from))
        self.on_change(() if None in changes.values() else changes)

    def _system_topics(self) -> list[TopicConfig]:
        settings = self._settings
        cluster, broker = settings.brokerClusterName, settings.brokerName
        defaults = settings.defaultTopicQueueNums
        cluster_perm = PERM_INHERIT | (_READ_WRITE if settings.clusterTopicEnable else 0)
        broker_perm = PERM_INHERIT | (_READ_WRITE if settings.brokerTopicEnable else 0)
        reply, revive = names.reply_topic(cluster), names.revive_topic(cluster)
        topics = [
            TopicConfig(names.SELF_TEST_TOPIC, 1, 1),
            TopicConfig(names.BENCHMARK_TOPIC, 1024, 1024),
            TopicConfig(cluster, 16, 16, cluster_perm),
            TopicConfig(broker, 1, 1, broker_perm),
            TopicConfig(names.OFFSET_MOVED_EVENT, 1, 1),
            TopicConfig(names.SCHEDULE_TOPIC, DELAY_LEVELS_MAX, DELAY_LEVELS_MAX),
            TopicConfig(reply, 1, 1),
            TopicConfig(revive, REVIVE_QUEUES, REVIVE_QUEUES),
            TopicConfig(names.broker_member_topic(broker), 1, 1, PERM_INHERIT),
            TopicConfig(names.HALF_TOPIC, 1, 1),
            TopicConfig(names.OP_HALF_TOPIC, 1, 1),
        ]
        if settings.autoCreateTopicEnable:
            perm = _READ_WRITE | PERM_INHERIT
            topics.append(TopicConfig(names.AUTO_CREATE_TOPIC, defaults, defaults, perm))
        if settings.traceTopicEnable:
            topics.append(TopicConfig(settings.msgTraceTopicName, 1, 1))
        if settings.timerWheelEnable:
            topics.append(TopicConfig(names.TIMER_TOPIC, 1, 1))
        self._system.update(topic.name for topic in topics)
        return topics


def _queues_of(queues: Iterable[tuple[bytes, int]]) -> dict[str, int]:
    """Topic name -> how many queues it needs so as to have all of these."""
    found: dict[str, int] = {}
    for topic, queue_id in queues:
        name = os.fsdecode(topic)
        if queue_id < TOPIC_QUEUES_MAX and not names.topic_fault(name):
            found[name] = max(found.get(name, 0), queue_id + 1)
    return found
