"""Registration: keeps this broker and its topics known at all its name servers.

    at start            the whole table, at once
    a topic changes     the changed topics, once for all that changed while the last request ran
    one is deleted      the whole table, likewise
    every 30 s          the whole table (registerNameServerPeriod, 10-60 s), as the sign of life.
                        After a start first at intervals of 1 s, 2 s, 4 s ..: an earlier broker of
                        this name may unregister late (RocketMQ 4 does so long after its port is
                        closed: rmq takeover)
    connection lost     the whole table, once the name server answers again (1 s, 2 s, .. 30 s)
    namesrvAddr changes links are opened and closed accordingly
    stop                unregister

Each name server has a task of its own, so a slow or dead one delays no other. It has one
connection, on which a request is sent only after the last one is answered, so changes reach it in
order.

The whole table is request 103, with version and table of one moment (tables/registered_topics.py).
It is never a part of the table, because a name server with deleteTopicWithBrokerRegistration takes
missing topics for deleted. Changed topics are requests 217, each a row of a route without a
version. The whole table is sent instead of 217 to a name server that does not know 217 (before
5.0), to one that did not get the whole table over this connection yet, and always by a slave or
when enableSingleTopicRegister is off. After requests 217 the table is sent under the same version
as before, so that the name server leaves alone what an operator has changed there (wipeWritePerm).
For a name server 217 is no sign of life, and it forgets brokers that gave none for 120 s; so 103 is
sent every 30 s, however often topics change.

settled() waits until the name servers have every change. It does not wait for a name server that is
down, nor for one that was too slow, until that has caught up.

Topics carry their permission masked with brokerPermission; registration_body.py has the form of
request 103. A table that no name server would take (a frame of more than 16 MiB) is not sent, and
that is logged. The reply may hold a table of ordered topics.
"""

import asyncio
import contextlib
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from rmq.broker.registration.registration_body import RegistrationBody
from rmq.broker.tables.queue_mappings import QueueMappings
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable
from rmq.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from rmq.config import Settings
from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.limits import FRAME_BYTES_MAX
from rmq.serving.remoting_client import CallError, RemotingClient, parse_address

log = logging.getLogger("rmq.broker.registration")

READ_WRITE = PERM_READ | PERM_WRITE
RETRY_FIRST_S, RETRY_LAST_S = 1.0, 30.0
UNREGISTER_S = 0.5
FIRST_PERIOD_S = 1.0
FIRST_ATTEMPT_S = 0.3
LATE_S = 0.5  # a name server that has not answered within this time is not waited for any more
SINGLES_MAX = 64  # more changed topics than this are cheaper in the whole table,
SINGLES_SHARE = 32  # unless the table has this many times as many topics
HEADER_BYTES = 16 << 10  # room for the header of request 103, and for its signature


class Registration:
    """Owned by the control thread."""

    def __init__(
        self,
        settings: Settings,
        topics: TopicTable,
        mappings: QueueMappings,
        address: Callable[[], tuple[str, str]],
        has_role: Callable[[], bool] = lambda: True,
    ) -> None:
        """has_role: while it returns false, no name server is told of this broker."""
        self._settings = settings
        self._topics = topics
        self._mappings = mappings
        self._addresses = address  # (broker address, HA address), known once the core listens
        self._has_role = has_role
        self._members: dict[str, _Member] = {}
        self.changes = 0  # number of changes so far
        self._waiting: dict[asyncio.Future[None], int] = {}  # -> awaited change; in this order

    async def start(self) -> None:
        """Registers at all name servers. Waits a moment for the first attempts, so that a client
        that looks for this broker now finds it, but not for a name server that does not answer."""
        self.addresses_changed()
        attempts = [member.attempted.wait() for member in self._members.values()]
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*attempts), FIRST_ATTEMPT_S)

    def addresses_changed(self) -> None:
        """Reads namesrvAddr anew: "a:9876;b:9876"."""
        wanted = []
        for part in self._settings.namesrvAddr.split(";") if self._has_role() else ():
            if not part.strip():
                continue
            try:
                parse_address(part)
            except CallError as error:
                log.error("namesrvAddr: %s, left out", error)
                continue
            wanted.append(part.strip())
        for address in [each for each in self._members if each not in wanted]:
            self._members.pop(address).stop()
        self.progressed()  # nobody waits for removed name servers any more
        for address in wanted:
            if address not in self._members:
                self._members[address] = _Member(address, self)

    def role_changed(self) -> None:
        """Called when this broker has become another replica of its name, or has got its first
        role."""
        self.addresses_changed()
        self.changed(())

    def changed(self, topics: Iterable[str]) -> None:
        """Sends these topics at once; none given: some were deleted, or all have changed."""
        self.changes += 1
        names = set(topics)
        for member in self._members.values():
            member.changed(names)

    async def settled(self, timeout_s: float) -> None:
        """Waits until the name servers have all changes so far, or do not answer."""
        goal = self.changes
        if not self._behind(goal):
            return
        loop = asyncio.get_running_loop()
        reached = loop.create_future()
        self._waiting[reached] = goal
        timer = loop.call_later(timeout_s, _end, reached)
        try:
            await reached
        finally:
            timer.cancel()
            del self._waiting[reached]
        for member in self._behind(goal):
            member.late = timeout_s >= LATE_S

    def _behind(self, goal: int) -> "list[_Member]":
        return [member for member in self._members.values() if member.is_behind(goal)]

    async def stop(self) -> None:
        members, self._members = list(self._members.values()), {}
        self.progressed()
        await asyncio.gather(*(member.unregister() for member in members))

    def wanted(self) -> int:
        """How many name servers should know this broker."""
        return len(self._members)

    def registered(self) -> list[str]:
        """Addresses of the name servers that know all topics."""
        return [address for address, member in self._members.items() if member.complete]

    # ---- used by the members

    def progressed(self) -> None:
        """Called when a name server was told, or could not be reached."""
        for reached, goal in self._waiting.items():
            if self._behind(goal):
                break  # and all later changes too
            _end(reached)

    @property
    def period_s(self) -> float:
        period_ms: int = self._settings.registerNameServerPeriod
        return max(10_000, min(60_000, period_ms)) / 1000

    @property
    def timeout_s(self) -> float:
        return float(self._settings.registerBrokerTimeoutMills) / 1000

    def identity(self) -> dict[str, str]:
        settings = self._settings
        return {
            "brokerAddr": self._addresses()[0],
            "brokerId": str(settings.brokerId),
            "brokerName": settings.brokerName,
            "clusterName": settings.brokerClusterName,
        }

    def register_command(self, version: Mapping[str, int]) -> Command:
        """Request 103: the whole table as it is now. CallError: it does not fit into a frame."""
        settings = self._settings
        body, compressed = self._body(version).encoded(settings.compressedRegister)
        if len(body) > FRAME_BYTES_MAX - HEADER_BYTES:
            raise CallError(
                f"the table of {len(self._topics.registered)} topics has {len(body)} bytes even "
                f"compressed, and name servers take {FRAME_BYTES_MAX} at most: delete topics that "
                "nobody uses, or move some to another broker"
            )
        fields = {
            **self.identity(),
            "haServerAddr": self._addresses()[1],
            "compressed": str(compressed).lower(),
            "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
            "enableActingMaster": str(settings.enableSlaveActingMaster).lower(),
            "heartbeatTimeoutMillis": "120000",
        }
        return Command(code=RequestCode.REGISTER_BROKER, fields=fields, body=body)

    def single_commands(self, topics: Iterable[str]) -> Iterator[Command]:
        """Request 217 for each of these topics, as the topic is when its turn comes."""
        for name in topics:
            topic = self._topics.registered.get(name)
            if topic is None:
                continue  # it was deleted meanwhile, and the whole table will follow
            topic = self._masked(topic)
            row = {
                "brokerName": self._settings.brokerName,
                "perm": topic.perm,
                "readQueueNums": topic.read_queues,
                "topicSysFlag": topic.sys_flag,
                "writeQueueNums": topic.write_queues,
            }
            route = {"brokerDatas": [], "filterServerTable": {}, "queueDatas": [row]}
            yield Command(
                code=RequestCode.REGISTER_TOPIC_IN_NAMESRV,
                fields={"topic": name},
                body=msgspec.json.encode(route),
            )

    def alone(self, topics: set[str]) -> bool:
        """Whether these topics are few enough to be sent one by one. A slave's topics are never
        sent so: 217 does not say which replica sends it, and a name server would replace the
        master's topics."""
        if self._topics.is_copy:
            return False
        if not self._mappings.all().keys().isdisjoint(topics):
            return False  # 217 has no place for a mapping
        limit = max(SINGLES_MAX, len(self._topics.registered) // SINGLES_SHARE)
        return self._settings.enableSingleTopicRegister and 0 < len(topics) <= limit

    def version(self) -> dict[str, int]:
        """The version of the table as it is now."""
        return self._topics.registered.version.members()

    def _body(self, version: Mapping[str, int]) -> RegistrationBody:
        registered, mappings = self._topics.registered, self._mappings
        return RegistrationBody(
            version,
            mappings.version.members(),
            {name: self._masked(topic) for name, topic in registered.all().items()},
            {name: each for name, each in mappings.all().items() if name in registered},
        )

    def _masked(self, topic: TopicConfig) -> TopicConfig:
        permission = self._settings.brokerPermission
        if permission & READ_WRITE == READ_WRITE:
            return topic
        return topic.masked(permission)

    def take_reply(self, reply: Command) -> None:
        """Takes the topics that the name server calls ordered from the body of its reply, which may
        be {"table":{topic:"broker-a:4"}}."""
        if not reply.body:
            return
        try:
            table: Any = fastjson.loads_object(reply.body).get("table")
        except ProtocolError as error:
            log.warning("reply to the registration: %s", error)
            return
        if isinstance(table, dict) and table:
            self._topics.mark_ordered(str(name) for name in table)


class _Member:
    """The registration at one name server: a task that sleeps until there is a change to send."""

    def __init__(self, address: str, owner: Registration) -> None:
        self._owner = owner
        self._link = RemotingClient(address, self._lost)
        self._news: set[str] = set()
        self._all = True
        self._wake = asyncio.Event()
        self._sent = -1  # the last change that the name server has
        self.attempted = asyncio.Event()  # the first registration worked or failed
        self.complete = False  # it knows all topics, over the present connection
        self._version: Mapping[str, int] = {}  # of the last whole table that was sent
        self._told_s = 0.0  # when that table was sent, by the loop's clock
        self._period_s = FIRST_PERIOD_S / 2  # doubled with each table
        self.late = False  # it did not answer within LATE_S
        self._singles = True  # it knows request 217, as far as known
        self._failing = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def changed(self, names: set[str]) -> None:
        if names:
            self._news |= names
        else:
            self._all = True
        self._wake.set()

    def is_behind(self, goal: int) -> bool:
        """Whether the name server lacks this change and is worth waiting for."""
        return self._sent < goal and not self._failing and not self.late

    def stop(self) -> None:
        self._task.cancel()
        self._link.close()

    async def unregister(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            if self.complete:
                command = Command(code=RequestCode.UNREGISTER_BROKER, fields=self._owner.identity())
                await self._link.call(command, UNREGISTER_S)
        except CallError as error:
            log.warning("unregistering: %s", error)
        self._link.close()

    async def _run(self) -> None:
        pause = RETRY_FIRST_S
        while True:
            self._wake.clear()
            worked = await self._send_changes()
            self.attempted.set()
            self._owner.progressed()
            if worked:
                pause = RETRY_FIRST_S
                await self._sleep()
            else:
                self.complete, self._all = False, True
                await asyncio.sleep(pause)
                pause = min(pause * 2, RETRY_LAST_S)

    async def _send_changes(self) -> bool:
        """Registers the changes, or the whole table; False when it did not work."""
        owner, news, everything = self._owner, self._news, self._all or not self.complete
        goal, self._news, self._all = owner.changes, set(), False
        try:
            if not everything and not news:
                await self._register(self._version)
            elif everything or not (self._singles and owner.alone(news)):
                await self._register(owner.version())
            elif not await self._register_single(news):
                self._singles = False
                goal = owner.changes
                await self._register(owner.version())
        except CallError as error:
            if not self._failing:
                log.warning("registration failed, it is tried again until it works: %s", error)
            self._failing = True
            return False
        self._sent = goal
        self._failing = self.late = False
        return True

    async def _register(self, version: Mapping[str, int]) -> None:
        """Sends the whole table; under a version that it has already, the name server adds only the
        topics that it lacks."""
        owner = self._owner
        reply = await self._call(owner.register_command(version))
        if reply.code != ResponseCode.SUCCESS:
            raise CallError(f"{self._link.address}: code {reply.code}: {reply.remark}")
        if not self.complete:
            log.info("registered at name server %s", self._link.address)
        self._version, self._told_s = version, asyncio.get_running_loop().time()
        self._period_s = min(2 * self._period_s, owner.period_s)
        self.complete = True
        owner.take_reply(reply)

    async def _register_single(self, topics: set[str]) -> bool:
        """Registers these topics one by one; False when the name server knows no such request."""
        for command in self._owner.single_commands(sorted(topics)):
            if asyncio.get_running_loop().time() >= self._due_s:
                await self._register(self._version)  # thousands of topics may take longer
            reply = await self._call(command)
            if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                log.info("name server %s takes no single topics", self._link.address)
                return False
            if reply.code != ResponseCode.SUCCESS:
                raise CallError(f"{self._link.address}: code {reply.code}: {reply.remark}")
        return True

    async def _call(self, command: Command) -> Command:
        return await self._link.call(command, self._owner.timeout_s)

    @property
    def _due_s(self) -> float:
        """When the next table is due."""
        return self._told_s + min(self._period_s, self._owner.period_s)

    async def _sleep(self) -> None:
        """Sleeps until there is a change, the period since the last table is over, or the name
        server closes the connection."""
        timer = asyncio.get_running_loop().call_at(self._due_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _lost(self) -> None:
        self.complete = False
        self._wake.set()


def _end(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
