"""Topics: the topics and groups of one run, made at its start and deleted at its end.

    topics = Topics("127.0.0.1:9876", settings)
    targets = topics.create(progress)
    for sentence in topics.delete(progress): print(sentence)      what is left behind, and why

They carry a token of the run, so that runs beside each other do not meet.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from rmq.client.blocking.admin import delete_group
from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RmqError
from rmq.load import control
from rmq.load.workload.rig import group_name
from rmq.load.workload.settings import Settings

Progress = Callable[[str, int, int], None]  # stage, done, of so many


class Topics:
    def __init__(self, namesrv: str, settings: Settings) -> None:
        token = secrets.token_hex(4)
        self.namesrv = namesrv
        self.prefix = f"omb-{token}"
        self.group = f"bench-omb-{token}"
        self.names = [f"{self.prefix}-{number:06d}" for number in range(settings.topics)]
        self._queues = settings.partitions_per_topic
        self._groups = [
            group_name(self.group, number) for number in range(settings.subscriptions_per_topic)
        ]
        self._made = 0  # so many of the names are, or may be, there

    def create(self, progress: Progress) -> list[control.Target]:
        """Their queues, spread over the masters. RmqError: a broker is not there, or refuses."""
        with Cluster(self.namesrv) as cluster:
            queues = max(1, self._queues // len(cluster.masters()))

        def asked(stage: str, done: int, total: int) -> None:
            if stage == control.CREATING:
                self._made = min(total, done + control.TOPICS_AT_ONCE)
            progress(stage, done, total)

        return control.find_queues(self.namesrv, self.names, queues, progress=asked)

    def delete(self, progress: Progress) -> list[str]:
        """What could not be deleted, a sentence each, with the reason. No exception but what
        interrupts it."""
        try:
            with Cluster(self.namesrv) as cluster:
                refused = self._delete_topics(cluster, progress)
                for group in self._groups:
                    delete_group(cluster, group, clean_offsets=True)
        except RmqError as error:
            return [self.left(str(error))]
        return [self.left(reason) for reason in refused]

    def left(self, reason: str) -> str:
        return f"topics {self.prefix}-.. are left behind: {reason}"

    def _delete_topics(self, cluster: Cluster, progress: Progress) -> list[str]:
        """The reasons of refusals."""
        reasons: dict[str, None] = {}
        masters = [broker.master for broker in cluster.masters() if broker.master is not None]
        step = control.TOPICS_AT_ONCE
        for start in range(0, self._made, step):
            rows = [{"topic": name} for name in self.names[start : min(start + step, self._made)]]
            for code, addresses in (
                (RequestCode.DELETE_TOPIC_IN_BROKER, masters),
                (RequestCode.DELETE_TOPIC_IN_NAMESRV, cluster.name_servers),
            ):
                for address in addresses:
                    for reply in cluster.connect(address).ask_all(code, rows):
                        if reply.code not in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST):
                            reasons[f"{address}: {reply.remark or f'code {reply.code}'}"] = None
            progress("deleting topics", start + len(rows), self._made)
        return list(reasons)
