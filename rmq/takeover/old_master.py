"""Old master: the broker that will be replaced.

    old = OldMaster("10.0.0.5:10911")
    old.check()                 ConfigError, or what the operator should know
    old.log_range()             where its log begins and ends
    old.freeze(30)              it takes no sends for 30 s (startAcceptSendRequestTimeStamp)
    old.refuses_sends()         whether it really refuses sends
    old.release()               it takes sends again
    old.presence()              RUNS, GONE (its port refuses), SILENT (cannot be told)

A freeze ends by itself: if this process dies, the old master takes sends again. The end is a time
of the old master's clock, which may differ from the clock here; 28 tells when that broker was
started and how long it has run. It still serves everything but sends: pulls, offsets, and delayed
and timed messages that are due.

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
from rmq.base.server_address import split_address
from rmq.client.blocking.connection import Connection
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
CLOCK_ERROR_S = 2.0  # because the running time is told in whole seconds
RUNTIME = re.compile(r"\[ (\d{1,6}) days, (\d\d?) hours, (\d\d?) minutes, (\d\d?) seconds \]")
# A send that every broker refuses, because its topic is invalid. A frozen broker refuses it before
# it looks at the topic.
NO_SEND = {
    "a": "rmq_takeover", "b": "%no topic%", "c": AUTO_CREATE_TOPIC, "d": 1, "e": 0, "f": 0, "g": 0,
    "h": 0, "i": "", "j": 0, "k": False,
}  # fmt: skip
TABLES = (
    (RequestCode.GET_ALL_TOPIC_CONFIG, "topic", "topicConfigTable"),
    (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "group", "subscriptionGroupTable"),
)
# Settings whose effect cannot be taken over: messages would be lost, or strangers let in.
REFUSED = {
    "aclEnable": "accounts are not taken over, and everyone would be let in",
    "authenticationEnabled": "accounts are not taken over, and everyone would be let in",
    "authorizationEnabled": "accounts are not taken over, and everyone would be let in",
    "enableControllerMode": "a controller decides which broker is master: start a broker with "
    "`rmq broker --controller`, and make it the master (`rmq replica promote`)",
    "enableDLegerCommitLog": "its log is one of DLedger, which no slave can copy",
    "duplicationEnable": "its log is a copy itself",
}
# Settings with which the old master keeps something in memory or in own files, not in the log.
NOTED = {
    "enablePopBufferMerge": "popped messages that are not acknowledged are in its memory: turn "
    "this off (mqadmin updateBrokerConfig) some minutes before the switch, or they are not "
    "delivered again",
    "popConsumerKVServiceEnable": "popped messages that are not acknowledged are in a database of "
    "its own, and are not delivered again",
    "messageStorePlugIn": "what its store plug-in keeps elsewhere is not taken over",
}
# A new master has no slaves yet: if it waited for some, sends would get SLAVE_NOT_AVAILABLE.
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
    """Used by one thread. Any call may raise UnreachableError or RemoteError: the old master did
    not do it."""

    def __init__(self, address: str) -> None:
        split_address(address)
        self.address = address
        self.settings = self._settings()
        self._before = self.settings.get(FREEZE) or "0"
        self._booted = runtime_info(address).get("bootTimestamp", "")

    def check(self) -> list[str]:
        """What the operator should know. ConfigError: this broker cannot be taken over."""
        if self.settings.get("brokerRole") == "SLAVE":
            raise ConfigError(f"{self.address} is a slave: give the address of its master")
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
        """Freezes it from now on; to prolong the freeze, call this again before the time is
        over."""
        self._set(FREEZE, str(int((self._latest_time() + seconds) * 1000)))

    def refuses_sends(self) -> bool:
        """Whether it refuses sends; a broker that is not frozen refuses this one only because of
        its topic, in other words."""
        with Connection(self.address) as connection:
            reply = connection.ask(RequestCode.SEND_MESSAGE_V2, NO_SEND, b"-")
        remark = reply.remark or ""
        return reply.code == ResponseCode.SYSTEM_ERROR and (
            FREEZE in remark or "unable to service" in remark
        )

    def release(self) -> None:
        """Lets it take sends again."""
        self._set(FREEZE, self._before)

    def log_range(self) -> tuple[int, int]:
        """Where its log begins and ends. RmqError: it is another process than before."""
        table = runtime_info(self.address)
        if table.get("bootTimestamp", "") != self._booted:
            raise RmqError(
                f"{self.address} was restarted meanwhile. If it was stopped cleanly, run this "
                "command again. If it was killed or its machine went down, it may lack messages "
                "that the copy has: delete the directory of --store first"
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
            raise ConfigError(f"{self.address} is not a broker (a name server?)") from None
        try:
            return dict(java_properties.parse(reply.body.decode("utf-8"), self.address))
        except (UnicodeDecodeError, ConfigError) as error:
            raise ProtocolError(f"{self.address}: its settings cannot be read: {error}") from None

    def _latest_time(self) -> float:
        """The latest time that its clock can show now; that of this machine if it does not tell."""
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
    """The runtime info of a broker (28). RocketMQ's broker sometimes fails, when its numbers change
    at that moment (NoSuchElementException)."""
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
    """Where a broker's log begins and ends. ProtocolError: it does not tell."""
    return log_range_of(runtime_info(address), address)


def log_range_of(table: Mapping[str, str], address: str) -> tuple[int, int]:
    begin, end = (table.get(key, "") for key in ("commitLogMinOffset", "commitLogMaxOffset"))
    if not end.isdecimal():
        raise ProtocolError(f"{address} does not say where its log ends")
    return int(begin) if begin.isdecimal() else 0, int(end)


def offsets(address: str) -> dict[tuple[str, int], int]:
    """(topic@group, queue) -> offset up to which messages are consumed (43)."""
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
    """The topics and groups that a broker knows (21, 201)."""
    found: set[str] = set()
    for code, what, table in TABLES:
        rows = fastjson.loads_object(ask(address, code).body).get(table)
        if not isinstance(rows, Mapping):
            raise ProtocolError(f"{address}: an answer without {table}")
        found |= {f"{what} {name}" for name in rows}
    return found


def delivered_to(address: str) -> dict[str, int]:
    """How far waiting messages are delivered: the offset of each delay level (45), and for timed
    messages the time in ms, as brokers of rmq (906) or RocketMQ's (60) tell it."""
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
