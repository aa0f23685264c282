"""Spread: topics and groups that the other brokers of a cluster have and one broker lacks.

    steps, notes = spread(state, broker_b, [broker_a, broker_c], topics=None)

Groups come first: messages are sent as soon as a topic is in the route, and their group's settings
must hold from the first delivery on. Where the other brokers differ, the settings that most of them
have are right; of settings that equally many have, those of the first broker by name. No queues are
taken away from a broker that has more than the others: messages may be in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from rmq import names
from rmq.errors import ConfigError
from rmq.scaling.cluster_state import BrokerState, ClusterState, Pair, TopicSettings
from rmq.scaling.step import ForbidReading, PutGroup, PutRequestMode, PutTopic, Step

T = TypeVar("T")

# Groups that every broker has from its first start, or that clients of tools make.
OWN_GROUPS = frozenset(
    {names.FILTER_SERVER_GROUP, names.SELF_TEST_GROUP, names.TOOLS_CONSUMER_GROUP}
)


def is_spread(state: ClusterState, topic: str) -> bool:
    """Whether it is a topic of users. Retry topics and dead letters come with their groups."""
    own = names.is_system(topic) or names.is_retry(topic) or names.is_dead_letter(topic)
    return not own and topic not in state.system


def is_users(group: str) -> bool:
    prefixes = (*names.PROXY_GROUP_PREFIXES, names.SYSTEM_GROUP_PREFIX)
    return not (group in OWN_GROUPS or names.is_system_group(group) or group.startswith(prefixes))


def spread(
    state: ClusterState, broker: BrokerState, sources: Sequence[BrokerState],
    topics: Sequence[str] | None,
) -> tuple[list[Step], list[str]]:  # fmt: skip
    """The steps, and notes for the operator. ConfigError: no source has one of the topics."""
    sources = sorted(sources, key=lambda each: each.name)
    notes: list[str] = []
    wanted = _wanted_topics(state, sources, topics, notes)
    steps = [*_groups(broker, sources, notes), *_forbidden(broker, sources)]
    for topic, settings in wanted.items():
        steps.extend(_topic(broker, topic, settings, notes))
    steps.extend(_modes(broker, sources, set(wanted)))
    ordered = [topic for topic, each in wanted.items()
               if each.is_ordered and topic not in broker.topics]  # fmt: skip
    if ordered:
        notes.append(
            f"ordered topics get more queues, so keys may move to other queues: "
            f"{', '.join(ordered)}"
        )
    return steps, notes


def _wanted_topics(
    state: ClusterState, sources: Sequence[BrokerState], topics: Sequence[str] | None,
    notes: list[str],
) -> dict[str, TopicSettings]:  # fmt: skip
    found: dict[str, list[tuple[str, TopicSettings]]] = {}
    static = {topic for each in sources for topic in each.static_topics}
    for source in sources:
        for topic, settings in source.topics.items():
            if is_spread(state, topic):
                found.setdefault(topic, []).append((source.name, settings))
    if topics is not None:
        for topic in topics:
            if topic not in found:
                raise ConfigError(
                    f"no other broker has a topic {topic}; `rmq topic list` shows all"
                )
        found = {topic: found[topic] for topic in dict.fromkeys(topics)}
    left_out = sorted(static & found.keys())
    if left_out:
        notes.append(f"static topics are left as they are: {', '.join(left_out)}")
    return {topic: _most(f"topic {topic}", rows, notes)[1]
            for topic, rows in sorted(found.items()) if topic not in static}  # fmt: skip


def _most(what: str, rows: Sequence[tuple[str, T]], notes: list[str]) -> tuple[str, T]:
    """The first row (broker, value) whose value most brokers have. rows: in the order of names."""
    counts = Counter(_key(value) for _, value in rows)
    best = max(counts.values())
    name, value = next(row for row in rows if counts[_key(row[1])] == best)
    others = [broker for broker, each in rows if _key(each) != _key(value)]
    if others:
        notes.append(f"{what} differs at {', '.join(others)}; the settings of {name} are used")
    return name, value


def _key(value: object) -> object:
    return value if isinstance(value, TopicSettings) else repr(_sorted(value))


def _sorted(value: object) -> object:
    if isinstance(value, Mapping):
        return sorted((str(key), _sorted(each)) for key, each in value.items())
    return value


# ---- topics


def _topic(
    broker: BrokerState, topic: str, wanted: TopicSettings, notes: list[str]
) -> Iterator[Step]:
    assert broker.master is not None
    present = broker.topics.get(topic)
    if topic in broker.static_topics:
        notes.append(f"{broker.name} has {topic} as a static topic, which is left as it is")
        return
    if present is not None and present.read_queues > wanted.read_queues:
        notes.append(
            f"{broker.name} has {present.read_queues} queues of {topic}; those beyond "
            f"{wanted.read_queues} stay readable"
        )
        wanted = TopicSettings(
            present.read_queues, wanted.write_queues, wanted.perm, wanted.order,
            wanted.filter_type, wanted.sys_flag, wanted.attributes,
        )  # fmt: skip
    if present == wanted:
        return
    changes = attribute_changes(
        dict(present.attributes) if present is not None else {}, dict(wanted.attributes)
    )
    texts = tuple(f"{key}={text}" if key[0] == "+" else key for key, text in changes.items())
    before = present.text() if present is not None else None
    action = PutTopic(broker.master, topic, wanted, texts)
    yield Step(broker.name, f"topic {topic}", before, wanted.text(), action)


def attribute_changes(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """{"+key": value, "-key": ""}; equal ones are left out, as some of them may not be changed."""
    changes = {f"+{key}": text for key, text in wanted.items() if present.get(key) != text}
    return changes | {f"-{key}": "" for key in present if key not in wanted}


# ---- groups


def _groups(
    broker: BrokerState, sources: Sequence[BrokerState], notes: list[str]
) -> Iterator[Step]:
    assert broker.master is not None
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for each in sources:
        for group, members in each.groups.items():
            if is_users(group):
                found.setdefault(group, []).append((each.name, members))
    for group, rows in sorted(found.items()):
        source, chosen = _most(f"group {group}", rows, notes)
        wanted = dict(chosen)
        present = broker.groups.get(group)
        attributes = _texts(wanted.pop("attributes", None))
        if present is None:
            members = {**wanted, "attributes": attribute_changes({}, attributes)}
            action = PutGroup(broker.master, members)
            yield Step(broker.name, f"group {group}", None, f"as {source} has it", action)
            continue
        # Brokers of other versions have other members: one that only one side has is no difference.
        differs = [key for key in sorted(wanted) if key in present and
                   _key(present[key]) != _key(wanted[key])]  # fmt: skip
        changes = {}
        if "attributes" in present:
            changes = attribute_changes(_texts(present["attributes"]), attributes)
        if differs or changes:
            members = {**present, **wanted, "attributes": changes}
            before = ", ".join(f"{key}={_text(present[key])}" for key in differs)
            after = [f"{key}={_text(wanted[key])}" for key in differs]
            after += [f"{key}={text}" if text else key for key, text in changes.items()]
            yield Step(broker.name, f"group {group}", before or None, ", ".join(after),
                       PutGroup(broker.master, members))  # fmt: skip


def _texts(attributes: Any) -> dict[str, str]:
    if not isinstance(attributes, Mapping):
        return {}
    return {str(key): str(text) for key, text in attributes.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _forbidden(broker: BrokerState, sources: Sequence[BrokerState]) -> Iterator[Step]:
    assert broker.master is not None
    wanted = {pair for source in sources for pair in source.forbidden}
    for group, topic in sorted(wanted - broker.forbidden):
        action = ForbidReading(broker.master, group, topic)
        yield Step(broker.name, f"group {group} on {topic}", "may read", "may not", action)


def _modes(broker: BrokerState, sources: Sequence[BrokerState], topics: set[str]) -> Iterator[Step]:
    """The steps for request modes; they follow the topics, without which a broker takes no mode."""
    assert broker.master is not None
    wanted: dict[Pair, tuple[str, int]] = {}
    for source in reversed(sources):
        wanted |= source.modes
    for (topic, group), (mode, share) in sorted(wanted.items()):
        present = broker.modes.get((topic, group))
        if topic not in topics or present == (mode, share):
            continue
        before = f"{present[0]}, share {present[1]}" if present is not None else None
        action = PutRequestMode(broker.master, topic, group, mode, share)
        what = f"mode of {group} on {topic}"
        yield Step(broker.name, what, before, f"{mode}, share {share}", action)
