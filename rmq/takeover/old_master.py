"""Old master: the broker that is to be replaced.

    old = OldMaster("10.0.0.5:10911")
    old.check()                 ConfigError, or what the operator should know
    old.log_range()             where its log begins and ends
    old.freeze(30)              it takes no sends for 30 s (startAcceptSendRequestTimeStamp)
    old.release()
    old.presence()              RUNS, GONE (its port refuses), SILENT (nobody can tell)

A freeze ends by itself: should this process die, the old master takes sends again. What is not a
send it goes on with: pulls, offsets, what is due of delayed and timed messages.

Source: RocketMQ 5.5.0 and 4.9.7, SendMessageProcessor: sends before that time are answered
SYSTEM_ERROR, at which RocketMQ's producers try again.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from enum import Enum

from rmq import java_properties
from rmq.client.blocking.connection import Connection, split_address
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ConfigError, ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.format.timer_position import read_timer_check, read_timers

FREEZE = "startAcceptSendRequestTimeStamp"
TABLE_S = 30.0
CONNECT_S = 2.0
# What it may have, and does not come along: messages would be lost, or let in who may not.
REFUSED = {
    "aclEnable": "rmq has no accounts yet, and would let everyone in",
    "authenticationEnabled": "rmq has no accounts yet, and would let everyone in",
    "authorizationEnabled": "rmq has no accounts yet, and would let everyone in",
    "enableControllerMode": "a controller says who is master of it: start a broker with "
    "`rmq broker --controller`, and make that the master (`rmq replica promote`)",
    "enableDLegerCommitLog": "its log is one of DLedger's, which no slave can copy",
    "duplicationEnable": "its log is a copy itself",
}
# What is kept in memory or in files of its own there, and is not in the log.
NOTED = {
    "enablePopBufferMerge": "what is popped and not acknowledged is in its memory: turn that off "
    "(mqadmin updateBrokerConfig) some minutes before the switch, or pops that nobody "
    "acknowledges do not come again",
    "popConsumerKVServiceEnable": "what is popped and not acknowledged is in a database of its "
    "own: pops that nobody acknowledges do not come again",
    "messageStorePlugIn": "what its store plug-in keeps elsewhere does not come along",
}


class Presence(Enum):
    RUNS = "runs"
    GONE = "gone"
    SILENT = "silent"


class OldMaster:
    """Used by one thread. UnreachableError and RemoteError of every call: it does not do that."""

    def __init__(self, address: str) -> None:
        split_address(address)
        self.address = address
        self.settings = self._settings()
        self._before = self.settings.get(FREEZE) or "0"

    def check(self) -> list[str]:
        """What the operator should know. ConfigError: it cannot be taken over."""
        if self.settings.get("brokerRole") == "SLAVE":
            raise ConfigError(f"{self.address} is a slave: name its master")
        for key, reason in REFUSED.items():
            if self.settings.get(key) == "true":
                raise ConfigError(f"{self.address} has {key}=true: {reason}")
        return [
            f"{key}={self.settings[key]}: {reason}"
            for key, reason in NOTED.items()
            if self.settings.get(key) not in (None, "", "false")
        ]

    @property
    def name(self) -> str:
        return self.settings.get("brokerName", "")

    @property
    def name_servers(self) -> str:
        return self.settings.get("namesrvAddr", "")

    @property
    def port(self) -> int:
        return split_address(self.address)[1]

    def freeze(self, seconds: float) -> None:
        """From now on; again before that time is over to go on."""
        self._set(FREEZE, str(int((time.time() + seconds) * 1000)))

    def release(self) -> None:
        """It takes sends again."""
        self._set(FREEZE, self._before)

    def log_range(self) -> tuple[int, int]:
        return log_range(self.address)

    def presence(self) -> Presence:
        try:
            with socket.create_connection(split_address(self.address), CONNECT_S):
                return Presence.RUNS
        except ConnectionRefusedError:
            return Presence.GONE
        except OSError:
            return Presence.SILENT

    def _settings(self) -> dict[str, str]:
        reply = ask(self.address, RequestCode.GET_BROKER_CONFIG)
        try:
            return dict(java_properties.parse(reply.body.decode("utf-8"), self.address))
        except (UnicodeDecodeError, ConfigError) as error:
            raise ProtocolError(f"{self.address}: its settings cannot be read: {error}") from None

    def _set(self, key: str, text: str) -> None:
        ask(self.address, RequestCode.UPDATE_BROKER_CONFIG, f"{key}={text}".encode())


def ask(address: str, code: int, body: bytes = b"") -> Command:
    with Connection(address) as connection:
        return connection.call(code, body=body, timeout=TABLE_S)


def log_range(address: str) -> tuple[int, int]:
    """As every broker says it of itself (28). ProtocolError: it does not."""
    table = fastjson.loads_object(ask(address, RequestCode.GET_BROKER_RUNTIME_INFO).body)
    entries = table.get("table")
    texts = (
        [str(entries.get(key, "")) for key in ("commitLogMinOffset", "commitLogMaxOffset")]
        if isinstance(entries, Mapping)
        else []
    )
    if not texts or not texts[1].isdecimal():
        raise ProtocolError(f"{address} does not say where its log ends")
    return int(texts[0]) if texts[0].isdecimal() else 0, int(texts[1])


def offsets(address: str) -> dict[tuple[str, int], int]:
    """(topic@group, queue) -> what is consumed up to there (43)."""
    content = fastjson.loads_object(ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET).body)
    table = content.get("offsetTable")
    if not isinstance(table, Mapping):
        raise ProtocolError(f"{address}: consumer offsets without a table")
    return {
        (str(key), int(queue)): int(offset)
        for key, row in table.items()
        if isinstance(row, Mapping)
        for queue, offset in row.items()
    }


def delivered_to(address: str) -> dict[str, int]:
    """How far messages are delivered that wait: the offset of each delay level (45), and the time
    of timed ones in ms, as our brokers say it (906) or RocketMQ's (60)."""
    content = fastjson.loads_object(ask(address, RequestCode.GET_ALL_DELAY_OFFSET).body)
    table = content.get("offsetTable")
    levels = table if isinstance(table, Mapping) else {}
    found = {f"delay level {level}": int(offset) for level, offset in levels.items()}
    with Connection(address) as connection:
        told = connection.ask(RequestCode.EXCHANGE_BROKER_HA_INFO)
        ours = told.text_field("rmqTimers")
        if ours is not None:
            return found | {"timers": read_timers(ours)[0]}
        check = connection.ask(RequestCode.GET_TIMER_CHECK_POINT)
    if check.code == ResponseCode.SUCCESS and check.body:
        found["timers"] = read_timer_check(check.body, time.time())[0]
    return found
