"""Route lookup: asks one name server after the other for a topic's route.

    found = await first_route(settings.namesrvAddr, "t", read, failed)

`read` takes what is wanted from a route, and raises ProtocolError when the route does not have it.
The search ends with the first server whose route has it; for each server before that, `failed` is
called with the reason. None: no server has it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, RemoteError, RmqError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.serving.remoting_client import CallError, RemotingClient

ANSWER_S = 1.0

T = TypeVar("T")


async def first_route(
    servers: str,
    topic: str,
    read: Callable[[dict[Any, Any]], T],
    failed: Callable[[str, RmqError], None],
) -> T | None:
    """servers: in the form of namesrvAddr. failed(server, error): a RemoteError is the server's
    own refusal."""
    for address in servers.split(";"):
        if not address.strip():
            continue
        link = RemotingClient(address.strip())
        command = Command(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic})
        try:
            reply = await link.call(command, ANSWER_S)
            if reply.code == ResponseCode.SUCCESS:
                return read(fastjson.loads_object(reply.body))
            failed(link.address, RemoteError(reply.code, reply.remark or "no reason given"))
        except (CallError, ProtocolError) as error:
            failed(link.address, error)
        finally:
            link.close()
    return None
