"""Master search: where a slave's master is, and what it says of itself.

    rmqMasterAddress        is the master's address, if it is given; else
    the name servers' list  of the cluster (106) tells which broker has the brokerName and id 0
    haMasterAddress         is where its log comes from, if given; else the master is asked (906);
                            RocketMQ 4 does not know that request, so its configuration is read

The configuration of the master (26) shows whether it is the right one: name, cluster and the size
of log files. A master that gives no configuration is believed.

Example: namesrvAddr=a:9876, brokerName=broker-a: the master is 10.0.0.1:10911, its log at
10.0.0.1:10912.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from rmq import java_properties
from rmq.broker.replication.epochs import OFFSET_MAX
from rmq.codes import RequestCode, ResponseCode
from rmq.config import Settings
from rmq.errors import ConfigError, ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.serving.remoting_client import CallError, RemotingClient, parse_address

ANSWER_S = 3.0
# Apache's broker needs long for its runtime info (28): on a starved machine 3 s were too few for
# every single try.
INFO_S = 15.0
SOON_S = 0.1  # until the next try, where the controller says that the master is there
SOON_TRIES = 20
# Settings that a copy of the log must have in common with the master.
SAME = ("brokerName", "brokerClusterName", "mappedFileSizeCommitLog")
PLACE = ("brokerIP2", "haListenPort")  # RocketMQ 4 makes its HA address from these


class Master(msgspec.Struct, frozen=True):
    address: str
    ha_address: str
    log_start: int  # where its log begins
    is_rmq: bool


class MasterSearch:
    """Owned by the control thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.address: Callable[[], str] = lambda: settings.rmqMasterAddress  # empty: look for it

    async def find(self, tail: str = "") -> Master:
        """Finds the master. tail: the checksum of this log's tail (tail_checksum.py), which a
        master of rmq compares. CallError, with the reason, when the master is not there now or
        refuses; ConfigError when it is not the master of this slave."""
        address = self.address() or await self._listed()
        parse_address(address)
        link = RemotingClient(address)
        try:
            theirs = await self._checked(link)
            told = await link.call(self._question(tail), ANSWER_S)
            if told.code == ResponseCode.NO_PERMISSION:
                raise CallError(f"{address} does not give its log: {told.remark or 'no reason'}")
            ha_address = self._settings.haMasterAddress or self._ha_address(told, address, theirs)
            start, is_rmq = told.text_field("rmqLogStart"), True
            if start is None:
                start, is_rmq = await self._log_start(link), False
        finally:
            link.close()
        parse_address(ha_address)
        if not start.isdecimal() or int(start) > OFFSET_MAX:
            raise CallError(f"{address}: its log begins at {start[:30]!r}")
        return Master(address, ha_address, int(start), is_rmq)

    def _question(self, tail: str) -> Command:
        """Request 906. It tells a master of rmq, before the log is asked for, that this slave
        copies its tables."""
        fields = {"rmqSlave": str(self._settings.brokerId), "rmqWaitMillis": "0"}
        if tail:
            fields["rmqLogTail"] = tail
        return Command(
            code=RequestCode.EXCHANGE_BROKER_HA_INFO,
            fields=fields if self._settings.brokerId > 0 else {},
        )

    async def _listed(self) -> str:
        """The address of the master, from the first name server that knows it."""
        settings, problems = self._settings, []
        for address in settings.namesrvAddr.split(";"):
            if not address.strip():
                continue
            link = RemotingClient(address.strip())
            try:
                reply = await link.call(Command(code=RequestCode.GET_BROKER_CLUSTER_INFO), ANSWER_S)
                return _master_of(reply, settings.brokerName)
            except CallError as error:
                problems.append(str(error))
            except (ProtocolError, LookupError) as error:
                problems.append(f"{address.strip()}: {error}")
            finally:
                link.close()
        raise CallError(
            f"no master of {settings.brokerName} is known: "
            + ("; ".join(problems) or "neither rmqMasterAddress nor namesrvAddr is given")
        )

    async def _checked(self, link: RemotingClient) -> Mapping[str, str]:
        """The master's configuration, checked; empty when it gives none."""
        reply = await link.call(Command(code=RequestCode.GET_BROKER_CONFIG), ANSWER_S)
        if reply.code != ResponseCode.SUCCESS:
            return {}
        try:
            theirs = java_properties.parse(reply.body.decode("utf-8"), link.address)
        except (ConfigError, UnicodeDecodeError) as error:
            raise CallError(f"{link.address}: its configuration cannot be read: {error}") from None
        for key in SAME:
            ours = str(getattr(self._settings, key))
            if key in theirs and theirs[key] != ours:
                raise ConfigError(
                    f"{key}={ours}: the master at {link.address} has {key}={theirs[key]}, and a "
                    "slave's log is a copy of its master's"
                )
        if theirs.get("brokerRole") == "SLAVE":
            raise CallError(f"{link.address} is a slave itself: name its master")
        return theirs

    def _ha_address(self, reply: Command, address: str, theirs: Mapping[str, str]) -> str:
        found = reply.text_field("masterHaAddress")
        if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and all(map(theirs.get, PLACE)):
            return ":".join(theirs[key] for key in PLACE)
        if reply.code != ResponseCode.SUCCESS or not found:
            raise CallError(
                f"{address} does not say where its log is to be had "
                f"({reply.remark or f'code {reply.code}'}): give haMasterAddress, or set its "
                "brokerRole or haListenPort"
            )
        return found

    async def _log_start(self, link: RemotingClient) -> str:
        """Where the log begins, from the runtime info (28) of RocketMQ's brokers; -1 is a log
        without files."""
        reply = await link.call(Command(code=RequestCode.GET_BROKER_RUNTIME_INFO), INFO_S)
        if reply.code != ResponseCode.SUCCESS:
            raise CallError(
                f"{link.address} does not say where its log begins: code {reply.code}, "
                f"{reply.remark or 'no reason given'}"
            )
        table = fastjson.loads_object(reply.body).get("table") if reply.body else None
        found = str(table.get("commitLogMinOffset", "0")) if isinstance(table, dict) else "0"
        return "0" if found == "-1" else found


def _master_of(reply: Command, name: str) -> str:
    """The address of the master; LookupError: this name server lists no master of that name."""
    if reply.code != ResponseCode.SUCCESS:
        raise LookupError(f"code {reply.code}: {reply.remark}")
    table = fastjson.loads_object(reply.body).get("brokerAddrTable")
    entry = table.get(name) if isinstance(table, dict) else None
    addresses = entry.get("brokerAddrs") if isinstance(entry, dict) else None
    for number, address in addresses.items() if isinstance(addresses, dict) else ():
        if str(number) == "0":
            return str(address)
    raise LookupError("does not list it")
