"""Subscription groups: the table, its file, and the part that the reactor gets.

    config/subscriptionGroup.json
        {"dataVersion":{..},"forbiddenTable":{group:{topic:bits}},
         "subscriptionGroupTable":{name:{..GroupConfig..}}}

A group is made by mqadmin, or by the first heartbeat or pull of its consumers when
autoCreateSubscriptionGroup is on. Bit 4 in forbiddenTable forbids the group to read the topic.

Example: GroupConfig("g").members() holds retryMaxTimes 16, retryQueueNums 1, consumeEnable true.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rmq import names
from rmq.base.clock import now_ms
from rmq.base.json_file import JsonFile
from rmq.broker.core_seam import GroupCalls
from rmq.broker.json_members import bool_member, int_member, text_member
from rmq.broker.name_checks import check_group
from rmq.broker.siblings import GROUP, Siblings, Stamp
from rmq.broker.tables import attributes as attribute_table
from rmq.broker.tables.data_version import DataVersion
from rmq.broker.tables.message_delay_level import parse_levels
from rmq.broker.tables.metadata_journal import Change, JournaledTable, MetadataJournal, part_of
from rmq.broker.tables.retry_policy import retry_levels
from rmq.broker.tables.stamps import Stamps
from rmq.codes import PERM_READ, ResponseCode
from rmq.config import Settings
from rmq.errors import ProtocolError
from rmq.refusal import Refusal

log = logging.getLogger("rmq.broker.groups")

RETRY_QUEUES_MAX = 1024  # RocketMQ has no such limit
_I32_MAX = 2**31 - 1


class GroupConfig(msgspec.Struct, frozen=True):
    """Immutable: a change makes a new one."""

    name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_orderly: bool = False
    retry_queues: int = 1
    retry_times_max: int = 16
    retry_policy: Mapping[str, Any] = msgspec.field(default_factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0
    broker_id_when_slow: int = 1
    notify_ids_changed: bool = True
    sys_flag: int = 0
    consume_timeout_minutes: int = 15
    subscriptions: tuple[Mapping[str, Any], ...] | None = None  # subscriptionDataSet of 5.x
    attributes: Mapping[str, str] = {}

    def members(self) -> dict[str, Any]:
        members: dict[str, Any] = {
            "attributes": dict(self.attributes),
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.consume_broadcast_enable,
            "consumeEnable": self.consume_enable,
            "consumeFromMinEnable": self.consume_from_min_enable,
            "consumeMessageOrderly": self.consume_orderly,
            "consumeTimeoutMinute": self.consume_timeout_minutes,
            "groupName": self.name,
            "groupRetryPolicy": dict(self.retry_policy),
            "groupSysFlag": self.sys_flag,
            "notifyConsumerIdsChangedEnable": self.notify_ids_changed,
            "retryMaxTimes": self.retry_times_max,
            "retryQueueNums": self.retry_queues,
            "whichBrokerWhenConsumeSlowly": self.broker_id_when_slow,
        }
        if self.subscriptions is not None:
            members["subscriptionDataSet"] = [dict(each) for each in self.subscriptions]
        return members

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "GroupConfig":
        """Reads JSON and checks every name and number; ProtocolError or Refusal when wrong."""
        policy = members.get("groupRetryPolicy") or {"type": "CUSTOMIZED"}
        attributes = members.get("attributes") or {}
        subscriptions = members.get("subscriptionDataSet")
        if not isinstance(policy, Mapping) or not isinstance(attributes, Mapping):
            raise ProtocolError("members groupRetryPolicy and attributes of a group are objects")
        if subscriptions is not None and not isinstance(subscriptions, list):
            raise ProtocolError("member subscriptionDataSet of a group is not an array")
        if not all(isinstance(each, Mapping) for each in subscriptions or ()):
            raise ProtocolError("member subscriptionDataSet of a group holds no objects")
        return cls(
            name=check_group(text_member(members, "groupName")),
            consume_enable=bool_member(members, "consumeEnable", True),
            consume_from_min_enable=bool_member(members, "consumeFromMinEnable", True),
            consume_broadcast_enable=bool_member(members, "consumeBroadcastEnable", True),
            consume_orderly=bool_member(members, "consumeMessageOrderly", False),
            retry_queues=int_member(members, "retryQueueNums", 1, 0, RETRY_QUEUES_MAX),
            retry_times_max=int_member(members, "retryMaxTimes", 16, -1, _I32_MAX),
            retry_policy=dict(policy),
            broker_id=int_member(members, "brokerId", 0),
            broker_id_when_slow=int_member(members, "whichBrokerWhenConsumeSlowly", 1),
            notify_ids_changed=bool_member(members, "notifyConsumerIdsChangedEnable", True),
            sys_flag=int_member(members, "groupSysFlag", 0, -(2**31), _I32_MAX),
            consume_timeout_minutes=int_member(members, "consumeTimeoutMinute", 15, 0, _I32_MAX),
            subscriptions=None if subscriptions is None else tuple(subscriptions),
            attributes={str(key): str(value) for key, value in attributes.items()},
        )


class GroupTable:
    """Owned by the control thread."""

    def __init__(
        self, settings: Settings, core: GroupCalls, config_directory: Path, journal: MetadataJournal
    ) -> None:
        self._settings = settings
        self._core = core
        self._file = JsonFile(
            config_directory / "subscriptionGroup.json",
            tables=("subscriptionGroupTable", "forbiddenTable"),
            advice="Put a copy in its place, or remove it and its .bak: then groups come back with "
            "the settings of new ones, and those that were not allowed to consume are.",
        )
        self._saver = JournaledTable(journal, self._file, whole=self._whole, part=self._part)
        self._delays_ms = parse_levels(settings.messageDelayLevel)
        self._groups: dict[str, GroupConfig] = {}
        self._forbidden: dict[str, dict[str, int]] = {}
        self.version = DataVersion()
        self.stamps = Stamps()
        self.siblings = Siblings()
        self.on_forbid: Callable[[str], None] = lambda group: None

    # ---- reading

    @property
    def is_copy(self) -> bool:
        """Whether the table is a copy of the master's."""
        return bool(self._settings.brokerRole == "SLAVE")

    def get(self, name: str) -> GroupConfig | None:
        return self._groups.get(name)

    def all(self) -> dict[str, GroupConfig]:
        return dict(self._groups)

    def __contains__(self, name: str) -> bool:
        return name in self._groups

    def require(self, name: str) -> GroupConfig:
        """The group, which is made if that is allowed; else Refusal 26."""
        found = self.find_or_create(name)
        if found is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group {name[:300]} does not exist on this broker",
            )
        return found

    def require_present(self, name: str) -> GroupConfig:
        """The group, or Refusal 26; nothing is made."""
        found = self._groups.get(name)
        if found is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group {name[:300]} does not exist on this broker",
            )
        return found

    def may_read(self, group: str, topic: str) -> bool:
        return not self._forbidden.get(group, {}).get(topic, 0) & PERM_READ

    def members(self) -> dict[str, Any]:
        """The content of subscriptionGroup.json."""
        return self._whole()()

    # ---- start and stop

    def load(self) -> None:
        content = self._saver.load() or {}
        self.version = DataVersion.of(content.get("dataVersion"))
        for name, members in (content.get("subscriptionGroupTable") or {}).items():
            try:
                group = GroupConfig.of(members)
            except (ProtocolError, Refusal, AttributeError) as error:
                log.error("%s: group %.300r is skipped: %s", self._file.path, name, error)
                continue
            self._groups[group.name] = group
            for why in attribute_table.faults(attribute_table.GROUP, group.attributes):
                log.error("%s: group %s: %s", self._file.path, name, why)
        for name, bits in (content.get("forbiddenTable") or {}).items():
            if isinstance(bits, Mapping):
                self._forbidden[name] = {t: b for t, b in bits.items() if isinstance(b, int)}
        self.stamps.load(content, self._groups, now_ms())
        missing = names.PRESET_GROUPS - self._groups.keys()
        if missing:
            self._groups.update((name, GroupConfig(name)) for name in missing)
            self.version.advance()
            self._saver.save_now()
        for group in self._groups.values():
            self._put_in_core(group)
        log.debug("subscription groups loaded: %d", len(self._groups))

    async def saved(self) -> None:
        await self._saver.saved()

    async def save_whole(self) -> None:
        """Returns when subscriptionGroup.json holds all groups and the journal none; StoreError."""
        await self._saver.save_whole()

    # ---- changing

    def find_or_create(self, name: str) -> GroupConfig | None:
        """The group, made at once when that is allowed. The file is written later: a group that is
        lost by a crash comes back with the next heartbeat of its consumers. A slave makes none."""
        return self._groups.get(name) if self.is_copy else self.bring_back(name)

    def bring_back(self, name: str) -> GroupConfig | None:
        """The same, but also at a slave: its master's log has named the group."""
        found = self._groups.get(name)
        if found is not None or names.group_fault(name) is not None:
            return found
        if not self._settings.autoCreateSubscriptionGroup and not names.is_system_group(name):
            return None
        group = GroupConfig(name)
        self._put(group)
        self._stamp(name)
        log.info("subscription group created by its consumers: %s", name)
        return group

    async def update(self, *groups: GroupConfig) -> None:
        """Adds or replaces groups on this shard alone, as a request says; returns when the file
        holds them."""
        for group in groups:
            if self._groups.get(group.name) != group:
                self._put(group)
                self.stamps.make_own(group.name, self.siblings.stamp())
                log.info("subscription group changed: %s", group)
        await self._saver.saved()
        await self.siblings.shared()

    async def delete(self, name: str) -> bool:
        """Returns when the file has neither the group nor what it may not read. False when there is
        no such group; another request may just have deleted it, so the file is waited for, too."""
        if self._forbidden.pop(name, None) is not None:
            self._changed(name)
        was_there = self._groups.pop(name, None) is not None
        if was_there:
            self._core.remove_group(name.encode())
            self._changed(name)
            self._stamp(name)
        await self._saver.saved()
        if was_there:
            log.info("subscription group deleted: %s", name)
            await self.siblings.shared()
        return was_there

    async def forbid_reading(self, group: str, topic: str, forbid: bool) -> None:
        bits = self._forbidden.setdefault(group, {})
        if forbid:
            bits[topic] = bits.get(topic, 0) | PERM_READ
        else:
            bits[topic] = bits.get(topic, 0) & ~PERM_READ
            if not bits[topic]:
                del bits[topic]
        if not bits:
            del self._forbidden[group]
        self._changed(group)
        self.on_forbid(group)
        await self._saver.saved()

    def take(self, made: Mapping[str, tuple[GroupConfig, Stamp]]) -> None:
        """Takes over groups that other shards have made by themselves (as in topics.py)."""
        if self.is_copy:
            return
        news = {
            name: group
            for name, (group, stamp) in made.items()
            if name not in self._groups and self.stamps.admits(name, stamp)
        }
        if not news:
            return
        for name, group in news.items():
            self.stamps.put(name, made[name][1])
            self._groups[name] = group
            self._put_in_core(group)
        self._changed(*news)
        log.info("groups taken over from other shards: %s", ", ".join(news)[:500])

    async def copy(
        self, groups: Mapping[str, GroupConfig], forbidden: Mapping[str, Mapping[str, int]]
    ) -> bool:
        """Makes this slave's table equal to the master's; returns, when the file holds it, whether
        groups were deleted."""
        deleted = self._groups.keys() - groups.keys() - names.PRESET_GROUPS
        for name in deleted:
            del self._groups[name]
            self._core.remove_group(name.encode())
            self._changed(name)
            log.info("subscription group deleted, as by the master: %s", name)
        for name, group in groups.items():
            if self._groups.get(name) != group:
                self._put(group)
                log.info("subscription group as the master has it: %s", group)
        for name in self._forbidden.keys() | forbidden.keys():
            bits = dict(forbidden.get(name) or {})
            if self._forbidden.get(name, {}) != bits:
                self._forbidden.pop(name, None)
                if bits:
                    self._forbidden[name] = bits
                self._changed(name)
                self.on_forbid(name)
        await self._saver.saved()
        return bool(deleted)

    def put_in_core(self, name: str) -> None:
        """Puts a group into the reactor's table again, in case it is missing there."""
        self._put_in_core(self._groups[name])

    def _put(self, group: GroupConfig) -> None:
        self._groups[group.name] = group
        self._changed(group.name)
        self._put_in_core(group)

    def _changed(self, *groups: str) -> None:
        self.version.advance()
        self._saver.changed(*groups)

    def _whole(self) -> Callable[[], dict[str, Any]]:
        """A function that makes the content of subscriptionGroup.json, as of now, in another
        thread."""
        groups, version, stamps = dict(self._groups), self.version.members(), self.stamps.members()
        forbidden = {group: dict(bits) for group, bits in self._forbidden.items()}

        def make() -> dict[str, Any]:
            table = {name: group.members() for name, group in groups.items()}
            return {
                "dataVersion": version,
                "forbiddenTable": forbidden,
                "subscriptionGroupTable": table,
                **stamps,
            }

        return make

    def _part(self, changed: set[str]) -> Callable[[], Change]:
        """A function that makes the journal's record of these groups."""
        groups = {name: self._groups.get(name) for name in changed}
        version, stamps = self.version.members(), self.stamps.members_of(changed)
        bits = {name: self._forbidden.get(name) for name in changed}
        forbidden = {name: each and dict(each) for name, each in bits.items()}

        def make() -> Change:
            table = {name: group and group.members() for name, group in groups.items()}
            members: dict[str, dict[str, Any]] = {
                "subscriptionGroupTable": table,
                "forbiddenTable": forbidden,
                **stamps,
            }
            return part_of(self._file.path.name, members, dataVersion=version)

        return make

    def _stamp(self, name: str) -> None:
        """Stamps the group and tells the other shards that it was made or deleted here."""
        self.stamps.put(name, self.siblings.stamp())
        self.siblings.changed(GROUP, name)

    def _put_in_core(self, group: GroupConfig) -> None:
        name = group.name.encode()
        self._core.put_group(
            name, int(group.consume_enable), int(group.consume_broadcast_enable),
            group.broker_id, group.broker_id_when_slow,
        )  # fmt: skip
        levels = retry_levels(group.retry_policy, self._delays_ms)
        self._core.put_retries(name, group.retry_queues, group.retry_times_max, levels)
