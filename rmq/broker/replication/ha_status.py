"""HA status: who follows this broker and how far, or how it follows its master; for 907 and people.

    {"master":true,"masterCommitLogMaxOffset":5000,"inSyncSlaveNums":1,"haConnectionInfo":[
        {"addr":"10.0.0.7:40112","slaveAckOffset":4800,"diff":200,"inSync":true,
         "transferFromWhere":4900,"transferredByteInSecond":0}],
     "haClientRuntimeInfo":{..}}

The form is RocketMQ's (HARuntimeInfo). A slave counts as in sync here if it lacks less than
haMaxGapNotInSync.
"""

from __future__ import annotations

from typing import Any, Protocol

from rmq.base.clock import now_ms
from rmq.broker.core_seam import HACalls, LogCalls
from rmq.broker.replication.role import acks_of_whole_set, in_sync_min
from rmq.config import Settings
from rmq.format.message import decode_host
from rmq.observe.sample import Sample, SlaveSample


class HALog(HACalls, LogCalls, Protocol):
    """What is used here of the core of a master under a controller."""


class Members(Protocol):
    """The sync state set, and those of it who answer their master."""

    @property
    def members(self) -> frozenset[int]: ...

    @property
    def answering(self) -> frozenset[int]: ...

    @property
    def is_short(self) -> bool: ...


def master_status(settings: Settings, core: HACalls, log: LogCalls) -> dict[str, Any]:
    end = log.log_range()[1]
    rows = [
        {
            "addr": address_text(address),
            "diff": end - max(acked, 0),
            "inSync": end - max(acked, 0) < settings.haMaxGapNotInSync,
            "slaveAckOffset": max(acked, 0),
            "transferFromWhere": max(following, 0),
            "transferredByteInSecond": 0,
        }
        for _, address, following, acked, _, _ in core.ha_connections()
    ]
    return {
        "haClientRuntimeInfo": client_info("", 0, 0, False),
        "haConnectionInfo": rows,
        "inSyncSlaveNums": sum(row["inSync"] for row in rows),
        "master": True,
        "masterCommitLogMaxOffset": end,
    }


def leader_status(watch: Members, settings: Settings, core: HALog) -> dict[str, Any]:
    """The status of a master under a controller, where the controller says which slaves are in
    sync. A slave counts as in sync if it also answers."""
    found = master_status(settings, core, core)
    slaves = core.ha_connections()
    for row, (*_, behind_ms, broker_id) in zip(found["haConnectionInfo"], slaves, strict=False):
        row["inSync"] = broker_id in watch.answering
        row["rmqBrokerId"], row["rmqBehindMs"] = broker_id, behind_ms
    found["inSyncSlaveNums"] = max(len(watch.answering) - 1, 0)
    found["rmqAnswering"] = sorted(watch.answering)
    found["rmqAllAck"] = acks_of_whole_set(settings)
    return found


def slave_status(core: HACalls, master: str) -> dict[str, Any]:
    connection, end, _, silent_ms, _, _, _ = core.ha_client()
    return {
        "haClientRuntimeInfo": client_info(
            master, end, now_ms() - silent_ms if connection else 0, connection != 0
        ),
        "haConnectionInfo": [],
        "inSyncSlaveNums": 0,
        "master": False,
        "masterCommitLogMaxOffset": 0,
    }


def observe_members(sample: Sample, watch: Members, settings: Settings, core: HALog) -> None:
    """Writes into the sample of such a master which slaves are in sync, and which follow."""
    end, least = core.log_range()[1], in_sync_min(settings)
    sample.role = "master"
    sample.in_sync, sample.in_sync_min = len(watch.answering), least
    sample.slaves = [
        SlaveSample(address_text(address), end - max(acked, 0), behind_ms, broker_id)
        for _, address, _, acked, behind_ms, broker_id in core.ha_connections()
    ]
    if watch.is_short:
        sample.replication_problem = (
            f"{len(watch.answering)} of {least} brokers are in sync: sends are refused "
            "(minInSyncReplicas)"
        )
        if silent := sorted(watch.members - watch.answering):
            sample.replication_problem += f"; {silent}, also members of the set, do not answer"
        if sample.state in ("running", "full"):  # the core takes no sends, whatever the disk says
            sample.state = "alone"


def client_info(master: str, end: int, read_ms: int, active: bool) -> dict[str, Any]:
    return {
        "activated": active,
        "lastReadTimestamp": read_ms,
        "lastWriteTimestamp": read_ms,
        "masterAddr": master,
        "masterFlushOffset": 0,
        "maxOffset": end,
        "transferredByteInSecond": 0,
    }


def address_text(packed: bytes) -> str:
    """The text of an address in a record's form: 4 or 16 bytes and an i32 port."""
    return str(decode_host(packed)) if len(packed) in (8, 20) else ""
