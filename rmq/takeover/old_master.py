"""Old master: the broker that is to be replaced.

    old = OldMaster("10.0.0.5:10911")
    old.check()                 ConfigError, or what the operator should know
    old.log_range()             where its log begins and ends
    old.freeze(30)              it takes no sends for 30 s (startAcceptSendRequestTimeStamp)
    old.refuses_sends()         whether that is so
    old.release()
    old.presence()              RUNS, GONE (its port refuses), SILENT (nobody can tell)

A freeze ends by itself: should this process die, the old master takes sends again. Its end is a
time of the old master's clock, which may differ from ours: 28 says when it was started and how long
it runs. What is not a send it goes on with: pulls, offsets, what is due of delayed and timed
messages.

Source: RocketMQ 5.5.0 and 4.9.7, SendMessageProcessor: sends before that time are answered
SYSTEM_ERROR, at which RocketMQ's producers try again.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping
from enum import Enum

from rmq import java_properties
from rmq.client.blocking.connection import Connection, split_address
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ConfigError, ProtocolError, RemoteError, RmqError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.format.timer_position import read_timer_check, read_timers
from rmq.names import AUTO_CREATE_TOPIC

FREEZE = "startAcceptSendRequestTimeStamp"
TABLE_S = 30.0
CONNECT_S = 2.0
INFO_TRIES = 5
INFO_PAUSE_S = 0.1
TIME_DIGITS_MAX = 15
CLOCK_ERROR_S = 2.0  # how long it runs is told in whole seconds
RUNTIME = re.compile(r"\[ (\d{1,6}) days, (\d\d?) hours, (\d\d?) minutes, (\d\d?) seconds \]")
# A send that no broker takes: its topic can be none. A frozen one does not come to look at that.
NO_SEND = {
    "a": "rmq_takeover", "b": "%no topic%", "c": AUTO_CREATE_TOPIC, "d": 1, "e": 0, "f": 0, "g": 0,
    "h": 0, "i": "", "j": 0, "k": False,
}  # fmt: skip
TABLES = (
    (RequestCode.GET_ALL_TOPIC_CONFIG, "topic", "topicConfigTable"),
    (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "group", "subscriptionGroupTable"),
)
# What it may have, and does not come along: messages would be lost, or let in who may not.
REFUSED = {
    "aclEnable": "no accounts come along, and everyone would be let in",
    "authenticationEnabled": "no accounts come along, and everyone would be let in",
    "authorizationEnabled": "no accounts come along, and everyone would be let in",
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
# One that waits for slaves has none yet: every send would be answered SLAVE_NOT_AVAILABLE.
NO_SLAVES_YET = (
    "brokerRole=SYNC_MASTER: the new master starts as ASYNC_MASTER, because no slave follows it "
    "yet. Allow its slaves (--set rmqReplicaAddresses=..); once they follow, set "
    "brokerRole=SYNC_MASTER in takeover.conf and restart it"
)


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
        self._booted = runtime_info(address).get("bootTimestamp", "")

    def check(self) -> list[str]:
        """What the operator should know. ConfigError: it cannot be taken over."""
        if self.settings.get("brokerRole") == "SLAVE":
            raise ConfigError(f"{self.address} is a slave: name its master")
        for key, reason in REFUSED.items():
            if self.settings.get(key) == "true":
                raise ConfigError(f"{self.address} has {key}=true: {reason}")
        notes = [
            f"{key}={self.settings[key]}: {reason}"
            for key, reason in NOTED.items()
            if self.settings.get(key) not in (None, "", "false")
        ]
        if self.settings.get("brokerRole") == "SYNC_MASTER":
            notes.append(NO_SLAVES_YET)
        return notes

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
        self._set(FREEZE, str(int((self._latest_time() + seconds) * 1000)))

    def refuses_sends(self) -> bool:
        """A broker that is not frozen complains of the topic, and says neither word."""
        with Connection(self.address) as connection:
            reply = connection.ask(RequestCode.SEND_MESSAGE_V2, NO_SEND, b"-")
        remark = reply.remark or ""
        return reply.code == ResponseCode.SYSTEM_ERROR and (
            FREEZE in remark or "unable to service" in remark
        )

    def release(self) -> None:
        """It takes sends again."""
        self._set(FREEZE, self._before)

    def log_range(self) -> tuple[int, int]:
        """RmqError: it is not the process that it was."""
        table = runtime_info(self.address)
        if table.get("bootTimestamp", "") != self._booted:
            raise RmqError(
                f"{self.address} was restarted meanwhile. If it had been stopped, start this "
                "command again. If it was killed or its machine went down, it may lack what the "
                "copy has: remove --store first"
            )
        return log_range_of(table, self.address)

    def presence(self) -> Presence:
        try:
            with socket.create_connection(split_address(self.address), CONNECT_S):
                return Presence.RUNS
        except ConnectionRefusedError:
            return Presence.GONE
        except OSError:
            return Presence.SILENT

    def _settings(self) -> dict[str, str]:
        try:
            reply = ask(self.address, RequestCode.GET_BROKER_CONFIG)
        except RemoteError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            raise ConfigError(f"{self.address} is no broker (a name server?)") from None
        try:
            return dict(java_properties.parse(reply.body.decode("utf-8"), self.address))
        except (UnicodeDecodeError, ConfigError) as error:
            raise ProtocolError(f"{self.address}: its settings cannot be read: {error}") from None

    def _latest_time(self) -> float:
        """What its clock shows at the latest; ours if it does not tell."""
        table = runtime_info(self.address)
        booted, runs = table.get("bootTimestamp", ""), RUNTIME.fullmatch(table.get("runtime", ""))
        if not booted.isdecimal() or len(booted) > TIME_DIGITS_MAX or runs is None:
            return time.time() + CLOCK_ERROR_S
        days, hours, minutes, seconds = map(int, runs.groups())
        runs_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return int(booted) / 1000 + runs_s + CLOCK_ERROR_S

    def _set(self, key: str, text: str) -> None:
        ask(self.address, RequestCode.UPDATE_BROKER_CONFIG, f"{key}={text}".encode())


def ask(address: str, code: int, body: bytes = b"") -> Command:
    with Connection(address) as connection:
        return connection.call(code, body=body, timeout=TABLE_S)


def runtime_info(address: str) -> dict[str, str]:
    """What a broker says of itself (28). RocketMQ's fails at times, when its figures change just
    then (NoSuchElementException)."""
    for left in reversed(range(INFO_TRIES)):
        try:
            body = ask(address, RequestCode.GET_BROKER_RUNTIME_INFO).body
            break
        except RemoteError:
            if not left:
                raise
            time.sleep(INFO_PAUSE_S)
    table = fastjson.loads_object(body).get("table")
    return (
        {str(key): str(text) for key, text in table.items()} if isinstance(table, Mapping) else {}
    )


def log_range(address: str) -> tuple[int, int]:
    """ProtocolError: it does not say it."""
    return log_range_of(runtime_info(address), address)


def log_range_of(table: Mapping[str, str], address: str) -> tuple[int, int]:
    begin, end = (table.get(key, "") for key in ("commitLogMinOffset", "commitLogMaxOffset"))
    if not end.isdecimal():
        raise ProtocolError(f"{address} does not say where its log ends")
    return int(begin) if begin.isdecimal() else 0, int(end)


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


def named(address: str) -> set[str]:
    """The topics and groups that it knows (21, 201)."""
    found: set[str] = set()
    for code, what, table in TABLES:
        rows = fastjson.loads_object(ask(address, code).body).get(table)
        if not isinstance(rows, Mapping):
            raise ProtocolError(f"{address}: an answer without {table}")
        found |= {f"{what} {name}" for name in rows}
    return found


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
