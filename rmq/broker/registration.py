"""Keeps this broker registered at all its name servers.

    at start            everything, at once
    a topic changes     the changed topics alone, in the same loop turn for many changes
    every 30 s          everything (registerNameServerPeriod, 10-60 s)
    connection lost     everything, as soon as the name server answers again (1 s, 2 s, .. 30 s)
    namesrvAddr changes links are opened and closed accordingly
    stop                unregister

Each name server has a task of its own, so a slow or dead one delays no other; none is ever waited
for by a request. A changed topic goes out alone only to a name server that has the full list of
this connection; with 10,000 topics that keeps a burst of creations linear.

Request 103, body {"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{..},
"topicConfigTable":{..}}}. Topics carry their permission masked with brokerPermission. The reply may
hold a table of ordered topics.
"""

import asyncio
import contextlib
import logging
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from rmq.broker.deadline import within
from rmq.broker.namesrv_link import LinkError, NamesrvLink, parse_address
from rmq.broker.topic_config import PERM_READ, PERM_WRITE
from rmq.broker.topics import TopicTable
from rmq.codes import RequestCode, ResponseCode
from rmq.config import Settings
from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command

log = logging.getLogger("rmq.broker.registration")

RETRY_FIRST_S, RETRY_LAST_S = 1.0, 30.0
UNREGISTER_S = 0.5
FIRST_ATTEMPT_S = 0.3


class Registration:
    """Owned by the control thread."""

    def __init__(
        self, settings: Settings, topics: TopicTable, address: Callable[[], tuple[str, str]]
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._addresses = address  # (broker address, HA address), known once the core listens
        self._members: dict[str, _Member] = {}

    async def start(self) -> None:
        """Registers everywhere; waits a moment for the first attempts, so that a client that is
        told of this broker now finds it, but not for a name server that does not answer."""
        self.addresses_changed()
        attempts = [member.attempted.wait() for member in self._members.values()]
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*attempts), FIRST_ATTEMPT_S)

    def addresses_changed(self) -> None:
        """Reads namesrvAddr anew: "a:9876;b:9876"."""
        wanted = []
        for part in self._settings.namesrvAddr.split(";"):
            if not part.strip():
                continue
            try:
                parse_address(part)
            except LinkError as error:
                log.error("namesrvAddr: %s, left out", error)
                continue
            wanted.append(part.strip())
        for address in [each for each in self._members if each not in wanted]:
            self._members.pop(address).stop()
        for address in wanted:
            if address not in self._members:
                self._members[address] = _Member(address, self)

    def changed(self, topics: Iterable[str]) -> None:
        """These topics are to be told at once; none named: the whole list."""
        names = set(topics)
        for member in self._members.values():
            member.changed(names)

    async def settled(self, timeout_s: float) -> None:
        """Waits until the name servers have been told of all changes so far, or do not answer."""
        waits = [member.settled.wait() for member in self._members.values()]
        if waits:
            with contextlib.suppress(asyncio.TimeoutError):
                await within(asyncio.gather(*waits), timeout_s)

    async def stop(self) -> None:
        members, self._members = list(self._members.values()), {}
        await asyncio.gather(*(member.unregister() for member in members))

    def wanted(self) -> int:
        """How many name servers are to know this broker."""
        return len(self._members)

    def registered(self) -> list[str]:
        """Addresses of the name servers that know all topics."""
        return [address for address, member in self._members.items() if member.complete]

    # ---- used by the members

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

    def register_command(self, only: set[str] | None) -> Command:
        """Request 103 with all topics, or with these alone."""
        body = self._body(only)
        fields = {
            **self.identity(),
            "haServerAddr": self._addresses()[1],
            "compressed": "false",
            "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
            "enableActingMaster": "false",
            "heartbeatTimeoutMillis": "120000",
        }
        return Command(code=RequestCode.REGISTER_BROKER, fields=fields, body=body)

    def _body(self, only: set[str] | None) -> bytes:
        permission = self._settings.brokerPermission
        masked = permission & (PERM_READ | PERM_WRITE) != PERM_READ | PERM_WRITE
        table = {}
        for name, topic in self._topics.all().items():
            if only is None or name in only:
                table[name] = (topic.masked(permission) if masked else topic).members()
        wrapper = {
            "dataVersion": self._topics.version.members(),
            "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 0},
            "topicConfigTable": table,
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": {},
        }
        return fastjson.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})

    def take_reply(self, reply: Command) -> None:
        """The body may be {"table":{topic:"broker-a:4"}}: topics the name server calls ordered."""
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
    """The registration at one name server: a task that sleeps until something is to be told."""

    def __init__(self, address: str, owner: Registration) -> None:
        self._owner = owner
        self._link = NamesrvLink(address)
        self._news: set[str] = set()
        self._all = True
        self._wake = asyncio.Event()
        self.settled = asyncio.Event()  # nothing is left to tell, or it does not answer
        self.attempted = asyncio.Event()  # the first registration worked or failed
        self.complete = False  # it knows all topics, over the present connection
        self._failing = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def changed(self, names: set[str]) -> None:
        if names:
            self._news |= names
        else:
            self._all = True
        self.settled.clear()
        self._wake.set()

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
        except LinkError as error:
            log.warning("unregistering: %s", error)
        self._link.close()

    async def _run(self) -> None:
        pause = RETRY_FIRST_S
        while True:
            self._wake.clear()
            only = self._news if self.complete and not self._all else None
            self._news, self._all = set(), False
            worked = await self._register(only)
            self.attempted.set()
            if not worked or not (self._news or self._all):
                self.settled.set()
            if worked:
                pause = RETRY_FIRST_S
                await self._sleep()
            else:
                self.complete, self._all = False, True
                await asyncio.sleep(pause)
                pause = min(pause * 2, RETRY_LAST_S)

    async def _register(self, only: set[str] | None) -> bool:
        """Sends these topics, or all; False when it did not work."""
        owner = self._owner
        try:
            reply = await self._link.call(owner.register_command(only), owner.timeout_s)
        except LinkError as error:
            self._failed(str(error))
            return False
        if reply.code != ResponseCode.SUCCESS:
            self._failed(f"{self._link.address}: code {reply.code}: {reply.remark}")
            return False
        if not self.complete:
            log.info("registered at name server %s", self._link.address)
        self.complete, self._failing = True, False
        owner.take_reply(reply)
        return True

    def _failed(self, text: str) -> None:
        if not self._failing:
            log.warning("registration failed, it is tried again until it works: %s", text)
        self._failing = True

    async def _sleep(self) -> None:
        """Until there is news, the period is over, or the name server closes the connection."""
        loop = asyncio.get_running_loop()
        woken = loop.create_task(self._wake.wait())
        lost = loop.create_task(self._link.closed_by_peer())
        try:
            done, _ = await asyncio.wait(
                {woken, lost}, timeout=self._owner.period_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not done or lost in done:
                self._all = True
            if lost in done:
                self.complete = False
        finally:
            woken.cancel()
            lost.cancel()
            await asyncio.gather(woken, lost, return_exceptions=True)
