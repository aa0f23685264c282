"""Admin sends the same requests by every transport: the engine, blocking sockets, an event loop, a
function.

Method: a scripted name server and broker behind each; the requests that came are compared.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from support.scripted_peer import ScriptedPeer

from rmq import Admin
from rmq.client.blocking.transport import SocketTransport, Transport
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError, UnreachableError
from rmq.format import fastjson, remoting
from rmq.format.frame_reader import FrameReader
from rmq.format.remoting import Command

Answers = dict[int, Callable[[Command], Command]]


class LoopTransport:
    """Sends requests in an event loop that another thread runs, with a connection for each
    request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def invoke(self, address: str, request: Command, timeout_s: float | None = None) -> Command:
        exchange = asyncio.wait_for(self._exchange(address, request), timeout_s or 5.0)
        try:
            return asyncio.run_coroutine_threadsafe(exchange, self._loop).result()
        except OSError as error:
            raise UnreachableError(f"{address}: {error}") from None

    async def _exchange(self, address: str, request: Command) -> Command:
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        request.opaque = 7
        writer.write(remoting.encode(request))
        frames = FrameReader()
        while (reply := frames.next()) is None:
            frames.feed(await reader.read(1 << 16))
        writer.close()
        return reply


class TableTransport:
    """No network: the answers come from tables, by address."""

    def __init__(self, tables: dict[str, Answers]) -> None:
        self._tables = tables

    def invoke(self, address: str, request: Command, timeout_s: float | None = None) -> Command:
        if address not in self._tables:
            raise UnreachableError(f"{address}: nobody there")
        return self._tables[address][request.code](request)


class Scene:
    """A name server with one broker, and what they were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, dict[str, str]]] = []
        self.brokers: Answers = {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self._answer(b""),
            RequestCode.GET_MAX_OFFSET: self._answer(b"", offset="17"),
            RequestCode.QUERY_CONSUMER_OFFSET: self._refuse(ResponseCode.QUERY_NOT_FOUND),
            RequestCode.DELETE_TOPIC_IN_BROKER: self._refuse(ResponseCode.NO_PERMISSION),
        }
        self.name_servers: Answers = {}
        self.broker_address = ""

    def open(self, stack: ExitStack) -> dict[str, Answers]:
        """Lets both listen. Returns their tables of answers by address."""
        broker_peer = ScriptedPeer(self.brokers)  # type: ignore[arg-type]
        self.broker_address = stack.enter_context(broker_peer).address
        broker = {"brokerName": "b", "cluster": "c", "brokerAddrs": {"0": self.broker_address}}
        queues = [{"brokerName": "b", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]
        table = {"brokerAddrTable": {"b": broker}, "clusterAddrTable": {"c": ["b"]}}
        self.name_servers |= {
            RequestCode.GET_BROKER_CLUSTER_INFO: self._answer(fastjson.dumps(table)),
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._answer(
                fastjson.dumps({"brokerDatas": [broker], "queueDatas": queues})
            ),
        }
        namesrv_peer = ScriptedPeer(self.name_servers)  # type: ignore[arg-type]
        self.address = stack.enter_context(namesrv_peer).address
        return {self.address: self.name_servers, self.broker_address: self.brokers}

    def _answer(self, body: bytes, **fields: str) -> Callable[[Command], Command]:
        def answer(request: Command) -> Command:
            self.asked.append((request.code, dict(request.fields)))
            reply = request.reply(0)
            reply.body, reply.fields = body, fields
            return reply

        return answer

    def _refuse(self, code: int) -> Callable[[Command], Command]:
        return lambda request: request.reply(code, "because")


@contextmanager
def event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


KINDS = ("engine", "sockets", "event loop", "function")


@pytest.fixture(params=KINDS)
def admin_and_scene(request: pytest.FixtureRequest) -> Iterator[tuple[Admin, Scene]]:
    with ExitStack() as stack:
        scene = Scene()
        tables = scene.open(stack)
        transport: Transport | None = None
        if request.param == "sockets":
            transport = sockets = SocketTransport()
            stack.callback(sockets.close)
        elif request.param == "event loop":
            transport = LoopTransport(stack.enter_context(event_loop()))
        elif request.param == "function":
            transport = TableTransport(tables)
        yield stack.enter_context(Admin(namesrv_addr=scene.address, transport=transport)), scene


def test_a_change_goes_to_the_master_with_its_fields(admin_and_scene: tuple[Admin, Scene]) -> None:
    admin, scene = admin_and_scene
    admin.create_topic("orders", queues=3, order=True)
    [(_, fields)] = [each for each in scene.asked if each[0] == RequestCode.UPDATE_AND_CREATE_TOPIC]
    assert (fields["topic"], fields["readQueueNums"], fields["order"]) == ("orders", "3", "true")


def test_answers_come_back_whole(admin_and_scene: tuple[Admin, Scene]) -> None:
    admin, scene = admin_and_scene
    [queue] = admin.route("orders").readable()
    assert (queue.topic, queue.broker_name, queue.queue_id) == ("orders", "b", 0)
    assert admin.max_offset(queue) == 17
    assert admin.committed_offset("g", queue) is None
    assert [broker.master for broker in admin.brokers()] == [scene.broker_address]


def test_a_refusal_is_a_remote_error(admin_and_scene: tuple[Admin, Scene]) -> None:
    admin, _ = admin_and_scene
    with pytest.raises(RemoteError, match="because") as caught:
        admin.delete_topic("orders")
    assert caught.value.code == ResponseCode.NO_PERMISSION


def test_a_given_transport_is_not_closed_with_the_admin() -> None:
    with ExitStack() as stack:
        scene = Scene()
        scene.open(stack)
        sockets = SocketTransport()
        stack.callback(sockets.close)
        for _ in range(2):
            with Admin(namesrv_addr=scene.address, transport=sockets) as admin:
                admin.brokers()
        assert sockets.connect(scene.address).fileno() >= 0
        assert len({id(sockets.connect(scene.address)) for _ in range(2)}) == 1


def test_an_admin_that_is_closed_asks_nothing() -> None:
    admin = Admin(namesrv_addr="127.0.0.1:1", transport=TableTransport({}))
    with admin, pytest.raises(UnreachableError, match="no name server answers"):
        admin.brokers()
    with pytest.raises(Exception, match="Admin"):
        admin.brokers()
