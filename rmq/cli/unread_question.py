"""Unread question: the question before a change of a topic that would leave messages unread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.topics import TopicState
from rmq.operations.topic_changes import unread


def ask_about_unread(
    cluster: Cluster, states: Sequence[TopicState], named: dict[str, Any], *, err: bool = False
) -> None:
    """Asks whether to go on, if messages could not be read any more once these members of the
    states are changed."""
    lost = unread(cluster, states, named)
    for line in lost:
        click.echo(line, err=True)
    if lost:
        click.confirm("They stay stored, and can be made readable. Go on?", abort=True, err=err)
