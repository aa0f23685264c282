"""Route lookup: a topic's route, asked of one name server after the other.

    found = await first_route(settings.namesrvAddr, "t", read, failed)

`read` makes of a route what is looked for, and raises ProtocolError when that is not in it. The
first server whose route has it ends the search; of the others `failed` hears why not. None: no
server has it.
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
    """servers: as namesrvAddr has them. failed(server, error): RemoteError is its own refusal."""
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
