"""Dead letters: the messages that a group gave up, listed and sent again one by one.

    for group in groups_with_letters(cluster): group_letters(cluster, group).waiting
    topic = topic_of(cluster, "billing")                %DLQ%billing
    places = places_of(cluster, topic, start)           a span of each queue
    for letter in letters(cluster, places, chosen): ..
    total = check_sending(cluster, places, chosen, "billing", None)
    Sending(cluster, keywords, "billing", None, notes=True).run(places, chosen)

Dead letters are in the topic %DLQ%group until they expire. Brokers keep how far they were sent
again, as the offset of the tools' group in that topic. However many there are, memory holds no more
of them than one answer of each broker brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.partial import Missing
from rmq.client.blocking.tail import ReceivedMessage, Start, span, tail
from rmq.codes import ResponseCode
from rmq.errors import MessageError, RemoteError, RmqError, UnreachableError
from rmq.format.fastjson import MessageQueue
from rmq.names import (
    DLQ_PREFIX,
    POP_RETRY_V2,
    RETRY_PREFIX,
    TOOLS_CONSUMER_GROUP,
    dlq_topic,
    is_dead_letter,
    popped_topic,
    retry_topic,
)
from rmq.operations.message_copy import copy_of, place_of, send_each

if TYPE_CHECKING:
    from cext.client.message import Message
    from rmq.client.parameters.keywords import ClientKeywords

ORIGIN = "origin"  # as a target: the topic that each letter came from
ORIGINS = ("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC")  # properties that name the topic a letter came from


class Words(NamedTuple):
    """What errors advise, in the words of those who read them: options, or the fields of a page."""

    topic: str
    origin: str
    others: str


OPTIONS = Words("give one with --to", f"--to {ORIGIN}", "send the others with --id or --from")


@dataclass(frozen=True)
class Letters:
    """Dead letters in one queue: first .. end. Those before `sent` were sent again."""

    queue: MessageQueue
    first: int
    end: int
    sent: int
    last_stored_ms: int

    @property
    def count(self) -> int:
        return self.end - self.first

    @property
    def waiting(self) -> int:
        return max(self.end - max(self.first, self.sent), 0)


class GroupLetters(msgspec.Struct, frozen=True):
    """Dead letters of a group, in all queues; `waiting`: those that were not sent again."""

    group: str
    count: int
    waiting: int
    last_stored_ms: int  # 0: never


@dataclass(frozen=True)
class Place:
    """Offsets of a queue: begin .. end."""

    queue: MessageQueue
    begin: int
    end: int


@dataclass
class Chosen:
    """Chooses letters: with this key, with these ids, at most `count`. `missing`: ids that were not
    met yet."""

    key: str | None = None
    ids: Sequence[str] = ()
    count: int | None = None
    missing: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.missing = set(self.ids)

    def takes(self, letter: ReceivedMessage) -> bool:
        unique = letter.properties.get("UNIQ_KEY", "")
        if self.key is not None and self.key not in letter.properties.get("KEYS", "").split():
            return False
        if self.ids and unique not in self.ids:
            return False
        self.missing.discard(unique)
        return True

    def check(self, found: int) -> None:
        """RmqError: no letter has the key, or an id, that was asked for. found: letters taken."""
        if self.missing or (self.key is not None and not found):
            what = f"id {min(self.missing)}" if self.missing else f"key {self.key}"
            raise RmqError(f"no dead letter has the {what}")


def letters_of(cluster: Cluster, topic: str, missing: Missing | None = None) -> list[Letters]:
    return letters_in(cluster, admin.topic_queues(cluster, topic, missing))


def letters_in(cluster: Cluster, queues: Iterable[admin.QueueRange]) -> list[Letters]:
    return [
        Letters(each.queue, each.min_offset, each.max_offset, sent_before(cluster, each.queue),
                each.last_stored_ms)
        for each in queues
    ]  # fmt: skip


def put_aside(cluster: Cluster, found: Iterable[Letters]) -> None:
    """They count as sent again from now on."""
    for each in found:
        if each.waiting:
            admin.commit_offset(cluster, TOOLS_CONSUMER_GROUP, each.queue, each.end)


def groups_with_letters(cluster: Cluster) -> list[str]:
    return [each.removeprefix(DLQ_PREFIX) for each in cluster.topics() if is_dead_letter(each)]


def group_letters(cluster: Cluster, group: str, missing: Missing | None = None) -> GroupLetters:
    """missing: see rmq/client/blocking/partial.py."""
    try:
        found = letters_of(cluster, dlq_topic(group), missing)
    except UnreachableError:
        if not missing:
            raise
        found = []
    return GroupLetters(
        group, sum(each.count for each in found), sum(each.waiting for each in found),
        max((each.last_stored_ms for each in found), default=0),
    )  # fmt: skip


def sent_before(cluster: Cluster, queue: MessageQueue) -> int:
    """The offset before which all letters of the queue were sent again."""
    return admin.committed_offset(cluster, TOOLS_CONSUMER_GROUP, queue) or 0


def no_letters(group: str) -> str:
    """What is said of a group that has none."""
    return f"group {group} has no dead letters"


def topic_of(cluster: Cluster, group: str) -> str:
    """The topic of the group's dead letters; RemoteError: the group has none."""
    topic = dlq_topic(group)
    if topic not in cluster.topics():
        raise RemoteError(ResponseCode.TOPIC_NOT_EXIST, no_letters(group))
    return topic


def places_of(
    cluster: Cluster, topic: str, start: Start | None, missing: Missing | None = None
) -> list[Place]:
    """The letters from `start` on, up to the queues' ends of now. Without a start: the letters of
    each queue that were not sent again. missing: as above."""
    found = []
    for each in letters_of(cluster, topic, missing):
        begin, end = max(each.first, each.sent), each.end
        if start is not None:
            begin, end = span(cluster, each.queue, start)
        if begin < end:
            found.append(Place(each.queue, begin, end))
    return found


def unsent(cluster: Cluster, places: Sequence[Place]) -> Iterator[Place]:
    """The rest of the places: another process may have sent some letters again meanwhile. Each
    queue is asked about when its turn comes."""
    for place in places:
        begin = max(place.begin, sent_before(cluster, place.queue))
        if begin < place.end:
            yield replace(place, begin=begin)


def letters(cluster: Cluster, places: Iterable[Place], chosen: Chosen) -> Iterator[ReceivedMessage]:
    """The chosen letters, queue after queue, in the order of each queue."""
    left = chosen.count if chosen.count is not None else -1
    for place in places:
        for letter in tail(
            cluster, place.queue.topic, start=Start("offset", place.begin, place.end),
            queues=[place.queue.queue_id], broker=place.queue.broker_name,
        ):  # fmt: skip
            if left == 0:
                return
            if chosen.takes(letter):
                left -= 1
                yield letter


def origin_of(letter: ReceivedMessage) -> str | None:
    """The topic from which the group read the letter; None: no property says it."""
    found = _came_by(letter)
    group = letter.stored.topic.removeprefix(DLQ_PREFIX)
    if found is None or found == retry_topic(group):
        return None
    popped = popped_topic(found, group)
    return found if popped is None else popped or None


def _came_by(letter: ReceivedMessage) -> str | None:
    found = (letter.properties.get(name) for name in ORIGINS)
    return next((each for each in found if each), None)


def message_of(
    letter: ReceivedMessage, group: str, target: str | None, words: Words = OPTIONS
) -> Message:
    """The message to send for a letter. target: a topic; ORIGIN: the topic that the letter came
    from; None: a retry topic, which this group alone reads. MessageError: it cannot be sent."""
    origin, came_by = origin_of(letter), _came_by(letter)
    # A group that pops has a retry topic for each topic; such a letter came by that retry topic.
    is_popped = came_by != origin
    topic = origin if target == ORIGIN else target
    if target is None:
        topic = came_by if is_popped else retry_topic(group)
    if topic is None:
        raise MessageError(f"{place_of(letter)}: its topic of origin is not known: {words.topic}")
    try:
        made = copy_of(letter, topic)
    except MessageError as error:
        raise MessageError(f"{error}; {words.others}") from None
    if target is None and origin is not None and not is_popped:
        made.put_property("RETRY_TOPIC", origin)  # the topic that the group will see
    return made


class Copies:
    """Makes the messages to send for letters. The cluster is asked about its groups, once for each
    retry topic."""

    def __init__(
        self, cluster: Cluster, group: str, target: str | None, words: Words = OPTIONS
    ) -> None:
        self._cluster, self._group, self._target = cluster, group, target
        self._words = words
        self._checked = {retry_topic(group)}

    def of(self, letter: ReceivedMessage) -> Message:
        """The message for a letter. MessageError: it cannot be sent, or another group would get
        it."""
        made = message_of(letter, self._group, self._target, self._words)
        if self._target is None and made.topic not in self._checked:
            self._check_reader(letter, made.topic)
            self._checked.add(made.topic)
        return made

    def _check_reader(self, letter: ReceivedMessage, topic: str) -> None:
        """MessageError: the group would not get what is sent to this retry topic of its pops.

        %RETRY%a_b is the pop retry topic of group a and topic b, and also the retry topic of a
        group a_b. A client that sends there makes group a_b, and then group a gets only messages
        that brokers have put there themselves. To %RETRY%a+b clients do not send at all.
        """
        other = topic.removeprefix(RETRY_PREFIX)
        if POP_RETRY_V2 in other:
            why = "to which only brokers may send"
        elif other in admin.groups(self._cluster):
            why = f"which now belongs to group {other}, and is not read by {self._group}"
        elif _has_ours(self._cluster):
            why = f"and {self._group} gets only what brokers send there"
        else:
            return
        raise MessageError(
            f"{place_of(letter)} came by {topic}, {why}: "
            f"send it to {origin_of(letter)}, for all groups that read it: {self._words.origin}"
        )


def _has_ours(cluster: Cluster) -> bool:
    """Whether the cluster has a broker of rmq."""
    return any("rmqVersion" in admin.runtime_info(cluster, each) for each in cluster.masters())


def check_sending(
    cluster: Cluster, places: Sequence[Place], chosen: Chosen, group: str, target: str | None,
    words: Words = OPTIONS,
) -> int:  # fmt: skip
    """The number of letters to send. All are read before the first is sent. MessageError: a letter
    cannot be sent."""
    copies, total = Copies(cluster, group, target, words), 0
    for each in letters(cluster, places, chosen):
        copies.of(each)
        total += 1
    chosen.check(total)
    return total


class Sending:
    """Sends letters again. `notes`: brokers keep how far this went. If two processes do it at the
    same time, some letters are sent twice."""

    def __init__(
        self, cluster: Cluster, keywords: ClientKeywords, group: str, target: str | None, *,
        notes: bool, told: Callable[[int], None] = lambda count: None, words: Words = OPTIONS,
    ) -> None:  # fmt: skip
        """keywords: those of the producer; told: called with `count` after each letter."""
        self._cluster, self._group, self._target, self._notes = cluster, group, target, notes
        self._keywords, self._told, self._words = keywords, told, words
        self.count = 0

    def run(self, places: Sequence[Place], chosen: Chosen) -> None:
        """Sends the letters. RmqError: one could not be sent; `count` letters were sent before
        it."""
        for name in {each.queue.broker_name for each in places} if self._notes else ():
            self._cluster.address_of(name)  # fails now if there is no master to keep the notes
        left = unsent(self._cluster, places) if self._notes else places
        taken: list[ReceivedMessage] = []
        # check_sending may have seen others: if another process sends letters again meanwhile, the
        # first Chosen.count letters are not those of the check.
        copies = Copies(self._cluster, self._group, self._target, self._words)

        def messages() -> Iterator[Message]:
            for each in letters(self._cluster, left, chosen):
                taken.append(each)
                yield copies.of(each)

        for sent in send_each(messages(), self._keywords):
            letter = taken.pop()
            if self._target is None and self.count == 0:
                self._check_taken(letter.stored.topic, str(sent.message_id))
            self.count += 1
            if self._notes:
                self._note(letter)
            self._told(self.count)

    def _note(self, letter: ReceivedMessage) -> None:
        stored = letter.stored
        queue = MessageQueue(stored.topic, letter.broker_name, stored.queue_id)
        admin.commit_offset(self._cluster, TOOLS_CONSUMER_GROUP, queue, stored.queue_offset + 1)

    def _check_taken(self, topic: str, message_id: str) -> None:
        """RmqError: the first letter that was sent is a dead letter again. If a group consumes in
        order, and holds locks, brokers make dead letters of all that comes to its retry topic. A
        member may have given the message up, too."""
        for each in tail(self._cluster, topic, start=Start("back", 1)):
            if each.properties.get("UNIQ_KEY") == message_id:
                raise RmqError(
                    f"the first one is a dead letter again: group {self._group} consumes in order, "
                    "so that messages of its retry topic are dead letters at once, or a member has "
                    "given it up. Stop its members meanwhile, or send to the topics of origin: "
                    f"{self._words.origin}"
                )
