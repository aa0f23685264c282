"""Server: the name server, where clients learn which broker holds which topic.

    server = NameServer(load_properties("namesrv.conf", server="namesrv"))
    await server.start()        # loads its files and listens; server.port is the port
    ...
    await server.stop()         # at most about a second

`rmq namesrv` is a process with one name server (rmq/node/process.py). Several may run in one
process or on one machine; none talks to another: every broker registers at all of them, and a
client asks any of them. All state except the key-value configuration and changed settings is in
memory; brokers register anew within 30 s of a restart.

Settings used (names of RocketMQ): bindAddress, listenPort, kvConfigPath, configStorePath ("" keeps
nothing on disk), configBlackList, orderMessageEnable, returnOrderTopicConfigToBroker,
scanNotActiveBrokerInterval, deleteTopicWithBrokerRegistration, enableAllTopicList, enableTopicList,
needWaitForService, waitSecondsForService, supportActingMaster, notifyMinBrokerIdChanged,
serverChannelMaxIdleTimeSeconds, rmqMaxConnections.
"""

import asyncio
import logging
from pathlib import Path

from rmq.auth.guard import Guard
from rmq.config import Settings
from rmq.namesrv.expiry import expire_for_ever
from rmq.namesrv.kv_config import KvConfig
from rmq.namesrv.notices import Notices
from rmq.namesrv.requests import Requests, failure
from rmq.namesrv.route_tables import RouteTables
from rmq.serving.address_table import AddressLimits
from rmq.serving.listener import Listener
from rmq.serving.proxy_protocol import Balancers
from rmq.serving.runtime_config import RuntimeConfig, path_of
from rmq.serving.tls import TlsFiles

_log = logging.getLogger("rmq.namesrv")


class NameServer:
    """Lives in one event loop; start and stop are called there."""

    def __init__(self, settings: Settings, guard: Guard | None = None) -> None:
        """guard: that of the process, which opens it; None: the name server has its own."""
        self.settings = settings
        self.guard = guard or own_guard(settings)
        self._owns_guard = guard is None
        self.tables = RouteTables()
        self.kv = KvConfig(path_of(settings.kvConfigPath))
        self.config = RuntimeConfig(settings, path_of(settings.configStorePath))
        self.port = 0
        self._requests = Requests(settings, self.tables, self.kv, self.config)
        self._notices = Notices(settings)
        self.tables.smallest_id_changed = self._notices.send
        self._listener: Listener | None = None
        self._expiry: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Loads and listens; ConfigError when a file or the address cannot be used."""
        self.config.load()
        self.kv.load()
        if self._owns_guard:
            self.guard.open()
        listener = Listener(
            self.guard.before(self._requests.start),
            failure,
            self.tables.connection_closed,
            self.settings.rmqMaxConnections,
            AddressLimits.of(self.settings),
            self.settings.serverChannelMaxIdleTimeSeconds,
            "name server",
            TlsFiles.of(self.settings),
            Balancers.of(self.settings),
        )
        self.port = await listener.open(
            self.settings.bindAddress, self.settings.listenPort, self.settings.serverSocketBacklog
        )
        self._listener = listener
        if self._owns_guard:
            self.guard.start()
        self._expiry = asyncio.create_task(
            expire_for_ever(self.tables, listener, self.settings.scanNotActiveBrokerInterval)
        )
        _log.info("name server listens on %s:%d", self.settings.bindAddress, self.port)

    async def stop(self) -> None:
        """Closes everything; a second call does nothing."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._notices.stop()
        if self._owns_guard:
            await self.guard.stop()
        if self._listener is not None:
            await self._listener.stop()
            self._listener = None
            _log.info("name server stopped")


def own_guard(settings: Settings) -> Guard:
    """Accounts of a name server that is a process of its own; it belongs to no cluster."""
    kept = path_of(settings.kvConfigPath)
    return Guard(settings, kept.parent if kept is not None else Path.cwd(), cluster="")
