"""Survey: every broker at one moment, with its topics, its groups' lags and its clients.

    survey = surveyor.look(account, cluster)        one request to each broker
    for each in survey.brokers: each.figures.in_rate, each.table
    survey.groups["billing"].lag, survey.topics["orders"].in_rate

rmq's brokers tell all of it in one answer (rmqDetail=tables). Other brokers give only RocketMQ's
table: rates, disk and version, but nothing about topics and groups; then `tells_groups` is false.
The rates of a broker are those between two looks, if the last look was a moment ago; else the
broker's own rates of the last ten seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rmq.base import clock
from rmq.client.blocking.cluster import BrokerEntry, Cluster
from rmq.console.brokers import Account
from rmq.console.history import History
from rmq.errors import ProtocolError, RemoteError, UnreachableError
from rmq.observe.rates import Figures, figures, refused, unreachable
from rmq.observe.sample import Sample
from rmq.operations.broker_samples import recent_rates, sample_of

MOMENT_S = 30.0  # two looks give rates only if they are no further apart
ACCOUNTS_MAX = 64


class BrokerSight(msgspec.Struct):
    """One broker process: a master, a slave or a shard."""

    entry: BrokerEntry
    broker_id: int
    address: str
    figures: Figures
    sample: Sample | None = None  # None: it did not answer
    table: dict[str, str] = {}

    @property
    def is_rmq(self) -> bool:
        return self.sample is not None and self.sample.pid > 0


class TopicSight(msgspec.Struct):
    """A topic, summed over all brokers that tell about it. Rates are None until they are known."""

    messages_in: int = 0
    messages_out: int = 0
    in_rate: float | None = None
    out_rate: float | None = None


class GroupSight(msgspec.Struct):
    """A group, over all brokers that tell about it."""

    lags: dict[str, int] = {}  # by topic
    members: int = 0
    mode: str = ""

    @property
    def lag(self) -> int:
        return sum(self.lags.values())


class Survey(msgspec.Struct):
    brokers: list[BrokerSight]
    topics: dict[str, TopicSight] = {}
    groups: dict[str, GroupSight] = {}
    left_out: int = 0  # topics and lags that brokers left out because there are too many

    @property
    def masters(self) -> list[BrokerSight]:
        return [each for each in self.brokers if each.broker_id == 0]

    @property
    def tells_groups(self) -> bool:
        """Whether all masters that answer tell about topics and groups."""
        return all(each.is_rmq for each in self.masters if each.sample is not None)

    def total(self, name: str) -> float | None:
        """The sum of a field of Figures over the masters; None: no master tells it."""
        known = [value for each in self.masters
                 if (value := getattr(each.figures, name)) is not None]  # fmt: skip
        return sum(known) if known else None

    @property
    def problems(self) -> list[str]:
        found = []
        for each in self.brokers:
            if each.figures.state != "running":
                text = f"{each.entry.name} at {each.address}: {each.figures.state}"
                found.append(f"{text}, {each.figures.problem}" if each.figures.problem else text)
        return found


class Surveyor:
    """Any thread; one look at a time for each account."""

    def __init__(self) -> None:
        self.history = History()  # of lags: (group, topic)
        self.is_refused = False  # brokers want an account, and the console asked without one
        self._last: dict[Account, tuple[float, dict[str, Sample]]] = {}

    def look(self, account: Account, cluster: Cluster) -> Survey:
        """Surveys all brokers. UnreachableError: no name server answers; RemoteError: this account
        may not ask."""
        at, before = self._last.get(account, (0.0, {}))
        if clock.monotonic() - at > MOMENT_S:
            before = {}
        survey = Survey([])
        refusal: RemoteError | None = None
        for entry, broker_id, address in _places(cluster.brokers()):
            try:
                sight = _sight(cluster, entry, broker_id, address, before.get(address))
            except RemoteError as error:
                refusal = error
                figures_ = refused(entry.name, address, error.remark)
                sight = BrokerSight(entry, broker_id, address, figures_)
            except (UnreachableError, ProtocolError) as error:
                figures_ = unreachable(entry.name, address, str(error))
                sight = BrokerSight(entry, broker_id, address, figures_)
            survey.brokers.append(sight)
        if refusal is not None and not any(each.sample for each in survey.brokers):
            self.is_refused = self.is_refused or account is None
            raise refusal
        self._note(account, survey)
        for each in survey.masters:
            if each.sample is not None:
                _add(survey, each.sample, before.get(each.address))
        for name, group in survey.groups.items():
            for topic, lag in group.lags.items():
                self.history.note((name, topic), lag)
        return survey

    def _note(self, account: Account, survey: Survey) -> None:
        samples = {each.address: each.sample for each in survey.brokers if each.sample is not None}
        self._last.pop(account, None)
        self._last[account] = (clock.monotonic(), samples)
        if len(self._last) > ACCOUNTS_MAX:
            self._last.pop(next(iter(self._last)))


def _places(entries: list[BrokerEntry]) -> Iterator[tuple[BrokerEntry, int, str]]:
    for entry in entries:
        for broker_id, address in sorted(entry.addresses.items()):
            yield entry, broker_id, address


def _sight(
    cluster: Cluster, entry: BrokerEntry, broker_id: int, address: str, earlier: Sample | None
) -> BrokerSight:
    sample, table = sample_of(cluster, entry, address, "tables")
    found = figures(earlier, sample)
    if not _follows(earlier, sample):
        in_rate, out_rate = recent_rates(table)
        found = msgspec.structs.replace(
            found, in_rate=in_rate, out_rate=out_rate, in_mb=None, out_mb=None, cpu=None
        )
    return BrokerSight(entry, broker_id, address, found, sample, table)


def _follows(earlier: Sample | None, later: Sample) -> bool:
    return earlier is not None and earlier.pid == later.pid and earlier.uptime_ms < later.uptime_ms


def _add(survey: Survey, sample: Sample, earlier: Sample | None) -> None:
    """Adds what one broker tells about topics, lags and clients."""
    survey.left_out += sample.left_out
    is_next = _follows(earlier, sample)
    before = {each.name: each for each in earlier.topics} if earlier is not None else {}
    seconds = (sample.uptime_ms - earlier.uptime_ms) / 1000 if earlier is not None else 0.0
    for topic in sample.topics:
        found = survey.topics.setdefault(topic.name, TopicSight())
        found.messages_in += topic.messages_in
        found.messages_out += topic.messages_out
        if is_next and seconds > 0:
            last = before.get(topic.name)
            in_before, out_before = (last.messages_in, last.messages_out) if last else (0, 0)
            found.in_rate = (found.in_rate or 0) + (topic.messages_in - in_before) / seconds
            found.out_rate = (found.out_rate or 0) + (topic.messages_out - out_before) / seconds
    for lag in sample.lags:
        group = survey.groups.setdefault(lag.group, GroupSight())
        group.lags[lag.topic] = group.lags.get(lag.topic, 0) + lag.messages
    members: dict[str, int] = {}
    for client in sample.consumers:
        members[client.group] = members.get(client.group, 0) + client.count
        survey.groups.setdefault(client.group, GroupSight()).mode = client.mode
    # A member is connected to every broker, so the counts of brokers are not added up.
    for name, count in members.items():
        group = survey.groups[name]
        group.members = max(group.members, count)
