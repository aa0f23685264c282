"""Overview: the cluster at one moment: rates in and out, groups that are behind, full disks."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from rmq.client.blocking.cluster import Cluster
from rmq.console.change import Change
from rmq.console.console import console_of
from rmq.console.page import page
from rmq.console.section import section
from rmq.names import is_system_group

BEHIND_MAX = 10  # groups that are furthest behind


def topic_count(cluster: Cluster) -> int:
    return len(cluster.topics())


async def overview(request: Request) -> Response:
    console = console_of(request)
    survey = await console.survey(request)
    count = await section(console.ask(request, topic_count))
    users = [(name, each) for name, each in survey.groups.items() if not is_system_group(name)]
    behind = sorted((item for item in users if item[1].lag), key=lambda item: -item[1].lag)
    disks = [each.figures.disk for each in survey.brokers if each.figures.disk is not None]
    return page(
        request, "overview.html", survey=survey, topics=count.value, groups=len(users),
        behind=behind[:BEHIND_MAX], disk=max(disks, default=None),
    )  # fmt: skip


ROUTES = {"/": overview}
CHANGES: tuple[Change, ...] = ()
