"""Topics: the topics and groups of one run, created at its start and deleted at its end.

    topics = Topics("127.0.0.1:9876", settings, masters=["127.0.0.1:10911"])
    targets = topics.create(progress)
    for sentence in topics.delete(progress): print(sentence)      what is left behind, and why

Their names have a token of the run, so that runs at the same time do not collide.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence

from rmq.client.blocking.admin import create_group
from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RmqError
from rmq.load import control
from rmq.load.workload.rig import group_name
from rmq.load.workload.settings import Settings
from rmq.progress import Progress

DELETED = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST,
           ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)  # fmt: skip
REASONS_MAX = 3  # in a sentence
Rows = Sequence[Mapping[str, object]]  # the fields of one request each


class Topics:
    def __init__(self, namesrv: str, settings: Settings, masters: Sequence[str]) -> None:
        """masters: the addresses of all masters."""
        token = secrets.token_hex(4)
        self.namesrv = namesrv
        self.prefix = f"omb-{token}"
        self.group = f"bench-omb-{token}"
        self.names = [f"{self.prefix}-{number:06d}" for number in range(settings.topics)]
        self._masters = list(masters)
        self._queues = settings.queues(len(masters)) // len(masters)
        self._groups = [
            group_name(self.group, number) for number in range(settings.subscriptions_per_topic)
        ]
        self._made = 0  # how many of the topics exist, or may exist
        self._gone: dict[str, str] = {}  # address that does not answer -> the error's text

    @property
    def are_made(self) -> bool:
        """Whether some of the topics exist, or may exist."""
        return self._made > 0

    def create(self, progress: Progress) -> list[control.Target]:
        """Creates the topics and returns their queues. Creates the groups, too, because not every
        broker does so at a pull (autoCreateSubscriptionGroup). RmqError: a broker is not there, or
        refuses."""

        def asked(stage: str, done: int, total: int) -> None:
            if stage == control.CREATING:
                self._made = min(total, done + control.TOPICS_AT_ONCE)
            progress(stage, done, total)

        targets = control.find_queues(
            self.namesrv, self.names, self._queues, progress=asked, are_new=True
        )
        with Cluster(self.namesrv) as cluster:
            for number, group in enumerate(self._groups):
                progress("creating groups", number, len(self._groups))
                create_group(cluster, group, {})
        return targets

    def delete(self, progress: Progress) -> list[str]:
        """Deletes topics and groups. Returns sentences about what could not be deleted, with the
        reasons. Raises nothing, except an interrupt."""
        topics: Rows = [{"topic": name} for name in self.names[: self._made]]
        groups: Rows = [{"groupName": name, "cleanOffset": True} for name in self._groups]
        reasons: dict[str, dict[str, None]] = {}  # noun -> its reasons, in order
        with Cluster(self.namesrv) as cluster:
            masters = self._masters_of(cluster)
            for what, code, addresses, rows in (
                (self._all_topics, RequestCode.DELETE_TOPIC_IN_BROKER, masters, topics),
                (self._all_topics, RequestCode.DELETE_TOPIC_IN_NAMESRV, cluster.name_servers,
                 topics),
                (self._all_groups, RequestCode.DELETE_SUBSCRIPTIONGROUP, masters, groups),
            ):  # fmt: skip
                for address in addresses:
                    for reason in self._refusals(cluster, address, code, rows, progress):
                        reasons.setdefault(what, {})[reason] = None
        return [_left_behind(what, list(found)) for what, found in reasons.items()]

    def left(self, reason: str) -> str:
        """The sentence that says that topics and groups were not deleted, for this reason."""
        return _left_behind(f"{self._all_topics} and {self._all_groups}", [reason])

    @property
    def _all_topics(self) -> str:
        return f"topics {self.prefix}-.."

    @property
    def _all_groups(self) -> str:
        return f"groups {self.group}-.."

    def _masters_of(self, cluster: Cluster) -> list[str]:
        """The masters at which topics were created, some of which may be gone, and those that exist
        now."""
        try:
            now = [broker.master for broker in cluster.masters() if broker.master is not None]
        except RmqError:  # delete() reports it when it asks the name server to delete the topics
            now = []
        return list(dict.fromkeys((*self._masters, *now)))

    def _refusals(
        self, cluster: Cluster, address: str, code: RequestCode, rows: Rows,
        progress: Progress,
    ) -> Iterator[str]:  # fmt: skip
        """Sends the requests. Yields the reasons of those that were not done."""
        if address in self._gone:
            yield self._gone[address]
            return
        try:
            for start, piece in control.pieces(rows):
                progress(f"at {address}", start, len(rows))
                for reply in cluster.connect(address).ask_all(code, piece):
                    if reply.code not in DELETED:
                        yield f"{address}: {reply.remark or f'code {reply.code}'}"
        except RmqError as error:
            self._gone[address] = str(error)
            yield str(error)


def _left_behind(what: str, reasons: list[str]) -> str:
    more = ["..."] if len(reasons) > REASONS_MAX else []
    return f"{what} are left behind: {'; '.join([*reasons[:REASONS_MAX], *more])}"
