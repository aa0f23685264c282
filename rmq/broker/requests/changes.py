"""Changes: requests that change tables. A slave refuses them; a master that waits for slaves
(SYNC_MASTER) answers them when the slaves have the tables, too.

    17 -> the handler makes the topic -> slaves have the table of topics -> 0
                                         not within slaveTimeout         -> 12, it is made here
                                         too few slaves                  -> 11, likewise

A deletion of a topic (215) that a controlled master could not promise is refused before it begins.

Topics that are made because of a send (its own, or its group's retry topic) wait for no slave; the
message of the send does.
"""

from collections.abc import Awaitable, Mapping
from functools import wraps
from typing import Protocol, TypeVar

from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.replication.replication import Replication
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.format.remoting import Command
from rmq.refusal import Refusal

# Slaves take these as well: tools send them to each broker, and the first one carries them out.
ACCOUNTS = (
    Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER, Code.AUTH_CREATE_ACL,
    Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL,
)  # fmt: skip
TABLES: Mapping[int, frozenset[str]] = {
    Code.UPDATE_AND_CREATE_TOPIC: frozenset(("topics",)),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: frozenset(("topics",)),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: frozenset(("topics",)),
    Code.DELETE_TOPIC_IN_BROKER: frozenset(("topics", "offsets")),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: frozenset(("groups",)),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: frozenset(("groups",)),
    Code.DELETE_SUBSCRIPTIONGROUP: frozenset(("groups", "offsets")),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: frozenset(("groups",)),
    Code.SET_MESSAGE_REQUEST_MODE: frozenset(("modes",)),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: frozenset(("offsets",)),
    Code.CLONE_GROUP_OFFSET: frozenset(("offsets",)),
    **dict.fromkeys(ACCOUNTS, frozenset(("accounts",))),
}


DROPS = (Code.DELETE_TOPIC_IN_BROKER,)  # these drop queues, which no table brings back


class Context(Protocol):
    """What these handlers use of the broker."""

    replication: Replication


C = TypeVar("C", bound=Context)


def with_slaves(code: int, handler: Handler[C]) -> Handler[C]:
    """Wraps the handler of a change for a broker with slaves."""

    @wraps(handler)
    def run(context: C, request: Request) -> Reply | Awaitable[Reply]:
        replication = context.replication
        if replication.is_slave:
            if code in ACCOUNTS:
                return handler(context, request)
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                "this broker is a slave, whose tables are its master's: ask the master "
                f"{replication.master_address}".rstrip(),
            )
        if code in DROPS and replication.waits_for_slaves:
            return _dropped(context, code, handler, request)
        result = handler(context, request)
        if not replication.waits_for_slaves:
            return result
        return _copied(replication, TABLES[code], request, result)

    return run


async def _dropped(context: C, code: int, handler: Handler[C], request: Request) -> Reply:
    """Runs a handler that drops queues, if that can be promised. A deletion that the next master
    does not have would leave a hole in this broker's queues when it becomes that master's slave."""
    missing = await context.replication.unable()
    if missing is not None:
        raise Refusal(
            missing,
            "nothing is deleted: too few replicas are in sync, or another broker may be master by "
            "now; ask again when there are enough",
        )
    return await _copied(context.replication, TABLES[code], request, handler(context, request))


async def _copied(
    replication: Replication,
    tables: frozenset[str],
    request: Request,
    result: Reply | Awaitable[Reply],
) -> Reply:
    reply = result if result is None or isinstance(result, Command) else await result
    if reply is None or reply.code != ResponseCode.SUCCESS:
        return reply
    missing = await replication.copied(tables)
    if missing is None:
        return reply
    if missing == ResponseCode.SLAVE_NOT_AVAILABLE:
        text = "it is done here, and not promised: too few slaves are there, or another leads"
    else:
        text = "it is done here, and no slave has it yet in time"
    return request.command.reply(missing, text)
