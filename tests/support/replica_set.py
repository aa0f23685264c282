"""Replica set: a name server, a master that waits for its slave, and the slave, as processes.

servers = Servers(tmp_path)  # broker name shop, with group g, and topic t of one queue
sent = Sent(servers); sent.more(50)  # acknowledged by both
servers.master.kill(); servers.master.start()  # the same store, the same port
servers.end()
Servers(tmp_path, acting_master=True)  # routes show the slave as the master while there is none
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from support.driven_clock import DrivenClock, process_clock
from support.rmq_process import start_rmq
from support.topics import make_topic
from support.waiting import HANG_S, wait_until

from rmq import Admin, Message, Producer
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.demo.ports import free_port
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

SMALL = ("--set", f"mappedFileSizeCommitLog={4 << 20}", "--set", "maxMessageSize=1048576",
         "--set", "waitTimeMillsInSendQueue=60000", "--set", "osPageCacheBusyTimeOutMills=60000",
         "--set", "slaveTimeout=60000", "--set", "brokerName=shop")  # fmt: skip
QUEUE = MessageQueue("t", "shop", 0)


class Server:
    """`rmq ..` as a process. `address` is taken from its ready line."""

    def __init__(
        self, log: Path, *words: str, port: int = 0, clock: DrivenClock | None = None
    ) -> None:
        self.words, self.log, self.port = words, log, str(port)
        self.environment = None if clock is None else clock.environment
        self.start()

    def start(self) -> None:
        with self.log.open("a") as log:
            self.process = start_rmq(
                [*self.words, "--port", self.port], stderr=log, environment=self.environment
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        # The ready line of a broker that is not registered yet also names a server that is silent.
        found = re.search(r"broker \S+ at (\d\S+:\d+)", line) or re.search(
            r"(?:name server |controller )(\d\S+:\d+)", line
        )
        assert found is not None, line + self.log.read_text()
        self.address = found[1]
        self.port = self.address.rpartition(":")[2]

    def kill(self) -> None:
        self.process.kill()
        self._ended()

    def stop(self) -> int:
        """Stops it by SIGTERM; returns its exit code."""
        self.process.terminate()
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(HANG_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def counted(self, name: str) -> int:
        """One of the broker's counters, as its runtime information (28) names it."""
        with Connection(self.address) as connection:
            body = connection.call(RequestCode.GET_BROKER_RUNTIME_INFO).body
        return int(fastjson.loads_object(body)["table"][name])


class Servers:
    """A name server, a master and its slave."""

    def __init__(self, folder: Path, acting_master: bool = False) -> None:
        said = "true" if acting_master else "false"
        shown = ("--set", f"supportActingMaster={said}")
        self._acting = f"enableSlaveActingMaster={said}"
        self.name_server = Server(folder / "n.txt", "namesrv", *shown)
        self.namesrv = self.name_server.address
        # The slave finds the master's HA port behind this port, also when it is started again.
        port = free_port(2, 1)
        self.master = self._broker(folder, "m", "brokerRole=SYNC_MASTER", port=port)
        more = (f"rmqMasterAddress={self.master.address}", "brokerId=1")
        self._stack = ExitStack()
        self.slave_clock = self._stack.enter_context(process_clock(folder))
        self.slave = self._broker(folder, "s", "brokerRole=SLAVE", *more, clock=self.slave_clock)
        wait_until(self.are_whole)
        with Admin(namesrv_addr=self.namesrv, mq_client_api_timeout=60_000) as admin:
            make_topic(admin, "t", 1)
            admin.create_group("g")

    def _broker(
        self, folder: Path, name: str, *settings: str, port: int = 0,
        clock: DrivenClock | None = None,
    ) -> Server:  # fmt: skip
        words = ["broker", "-n", self.namesrv, "--store", str(folder / name), *SMALL]
        for setting in (self._acting, *settings):
            words += ["--set", setting]
        return Server(folder / f"{name}.txt", *words, port=port, clock=clock)

    def end(self) -> None:
        for each in (self.slave, self.master, self.name_server):
            if each.process.poll() is None:
                each.kill()
        self._stack.close()

    def addresses(self) -> dict[int, str]:
        """Addresses by broker id, as the name server lists them."""
        with Cluster(self.namesrv) as cluster:
            return {id_: at for each in cluster.brokers() for id_, at in each.addresses.items()}

    def send_readers_away(self) -> None:
        """Has the master tell consumers of group g to read at broker 1."""
        with Connection(self.master.address) as connection:
            connection.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"slaveReadEnable=true")
            body = b'{"groupName":"g","brokerId":1}'
            connection.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    def are_whole(self) -> bool:
        with Connection(self.master.address) as connection:
            body = connection.call(RequestCode.GET_BROKER_HA_STATUS).body
        both = {0: self.master.address, 1: self.slave.address}
        return len(fastjson.loads_object(body)["haConnectionInfo"]) == 1 and (
            self.addresses() == both
        )


class Sent:
    """Messages "0", "1", .. whose sends were answered with SEND_OK."""

    def __init__(self, servers: Servers) -> None:
        self.servers, self.count = servers, 0

    def more(self, count: int = 50) -> None:
        with Producer("P", namesrv_addr=self.servers.namesrv, send_msg_timeout=60_000) as producer:
            for number in range(self.count, self.count + count):
                result = producer.send(Message("t", b"%d" % number), queue=QUEUE)
                assert result.status == "SEND_OK"
        self.count += count

    @property
    def bodies(self) -> list[bytes]:
        return [b"%d" % number for number in range(self.count)]
