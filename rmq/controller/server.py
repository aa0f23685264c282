"""Server: the controller, which decides who is master of each broker name.

    server = ControllerServer(load_properties("controller.conf", server="controller"))
    await server.start()        # its store answers, and it listens; server.port is the port
    ...
    await server.stop()

With `rmqEtcd` any number of controllers of one `rmqControllerGroup` may run, and one of them leads;
without it there is one controller, which keeps its state in a file and is not fault-tolerant.
Brokers are given the addresses of all controllers: controllerAddr=h1:9878;h2:9878;h3:9878.

Settings used: bindAddress, listenPort, controllerStorePath, configStorePath, configBlackList,
enableElectUncleanMaster, notifyBrokerRoleChanged, serverChannelMaxIdleTimeSeconds, rmqEtcd,
rmqControllerGroup, rmqControllerName, rmqControllerAddress, rmqLeaseMillis, rmqMaxConnections.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from rmq.auth.guard import Guard
from rmq.config import Settings
from rmq.controller.broker_set import BrokerSet
from rmq.controller.elections import Elections
from rmq.controller.leases import Leases
from rmq.controller.live_replicas import LiveReplicas
from rmq.controller.requests import Requests, failure, set_body
from rmq.controller.role_notices import RoleNotices
from rmq.controller.state_store import Controller, StateStore
from rmq.errors import ConfigError
from rmq.serving.address_table import AddressLimits
from rmq.serving.listener import Listener
from rmq.serving.proxy_protocol import Balancers
from rmq.serving.runtime_config import RuntimeConfig, path_of
from rmq.serving.tls import TlsFiles

SWEEP_S = 5.0  # between two checks for idle connections

_log = logging.getLogger("rmq.controller")


class ControllerServer:
    """Lives in one event loop; start and stop are called there."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        store = Path(settings.controllerStorePath).expanduser()
        self.guard = Guard(settings, store, cluster="")
        self.live = LiveReplicas()
        self.leases = Leases(settings.rmqLeaseMillis)
        self.store = _store(settings, self.leases)
        self.elections = Elections(self.store, self.live, self.leases)
        self.port = 0
        self._notices = RoleNotices(self.live)
        self._config = RuntimeConfig(settings, path_of(settings.configStorePath))
        self._listener: Listener | None = None
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Loads, listens, and stands for election; RmqError if a file, address or store cannot be
        used."""
        settings = self.settings
        self._config.load()
        self.guard.open()
        self.elections.unclean = lambda: bool(settings.enableElectUncleanMaster)
        self.elections.elected = self._tell
        requests = Requests(self.elections, settings.rmqControllerGroup, self._config)
        listener = Listener(
            self.guard.before(requests.start),
            failure,
            self.elections.connection_closed,
            settings.rmqMaxConnections,
            AddressLimits.of(settings),
            settings.serverChannelMaxIdleTimeSeconds,
            "controller",
            TlsFiles.of(settings),
            Balancers.of(settings),
        )
        self.port = await listener.open(
            settings.bindAddress, settings.listenPort, settings.serverSocketBacklog
        )
        self.guard.start()
        self._listener = listener
        own = self.address
        await self.store.start(Controller(settings.rmqControllerName or own, own))
        self.elections.start()
        self._sweeping = asyncio.create_task(_sweep_for_ever(listener))
        _log.info("controller listens on %s:%d", settings.bindAddress, self.port)

    @property
    def address(self) -> str:
        """The address that brokers and other controllers are told; known once it listens."""
        bound = f"{self.settings.bindAddress}:{self.port}"
        return self.settings.rmqControllerAddress or bound

    async def stop(self) -> None:
        """Closes everything, and gives leadership back; a second call does nothing."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._notices.stop()
        self.elections.stop()
        await self.guard.stop()
        await listener.stop()
        await self.store.stop()
        _log.info("controller stopped")

    def _tell(self, found: BrokerSet) -> None:
        if self.settings.notifyBrokerRoleChanged:
            self._notices.tell(found, set_body(found))


def _store(settings: Settings, leases: Leases) -> StateStore:
    endpoints = [each.strip() for each in settings.rmqEtcd.split(";") if each.strip()]
    if not endpoints:
        from rmq.controller.file_store import FileStore

        return FileStore(Path(settings.controllerStorePath).expanduser())
    for each in endpoints:
        if not each.startswith(("http://", "https://")):
            raise ConfigError(f"rmqEtcd={settings.rmqEtcd}: {each} is no URL such as http://h:2379")
    if "/" in settings.rmqControllerGroup or not settings.rmqControllerGroup:
        raise ConfigError(f"rmqControllerGroup={settings.rmqControllerGroup}: a name without /")
    try:
        from rmq.controller.etcd import Etcd
        from rmq.controller.etcd_store import EtcdStore
    except ImportError as error:
        raise ConfigError(f"rmqEtcd needs httpx ({error}): pip install 'rmq[etcd]'") from None
    return EtcdStore(Etcd(endpoints), settings.rmqControllerGroup, leases.begin)


async def _sweep_for_ever(listener: Listener) -> None:
    while True:
        await asyncio.sleep(SWEEP_S)
        listener.sweep()
