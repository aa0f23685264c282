"""Handlers of maintenance: 305 expired log files, 306 and 316 queues and topics; 301 and 302.

Example: 305 has the oldest segments deleted at once, whatever the hour (deleteWhen).
"""

from typing import Protocol

from rmq.broker.clients import subscription_filters
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.tasks.retention import Retention
from rmq.codes import RequestCode as Code


class Context(Protocol):
    """What these handlers use of the broker."""

    retention: Retention


def delete_expired_log(context: Context, request: Request) -> Reply:
    context.retention.delete_by_hand()
    return request.command.reply()


def refuse_filter_server(context: Context, request: Request) -> Reply:
    """301 and 302: filter servers ran Java classes that consumers uploaded."""
    raise subscription_filters.refuse_class_filter()


def nothing_to_clean(context: Context, request: Request) -> Reply:
    """306 and 316: queue files are deleted with the log they point into, without a request."""
    return request.command.reply()


HANDLERS: dict[int, Handler[Context]] = {
    Code.REGISTER_FILTER_SERVER: refuse_filter_server,
    Code.REGISTER_MESSAGE_FILTER_CLASS: refuse_filter_server,
    Code.DELETE_EXPIRED_COMMITLOG: delete_expired_log,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: nothing_to_clean,
    Code.CLEAN_UNUSED_TOPIC: nothing_to_clean,
}
