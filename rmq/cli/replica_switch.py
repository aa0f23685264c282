"""Replica switch: a planned switch that loses nothing, even if acks do not need all in sync.

    with acks_of_all(replicas, found, 2, timeout_s) as is_told:
        elect_soon(replicas, "broker-a", 2) if is_told else replicas.elect("broker-a", 2)

With allAckInSyncStateSet=false the chosen replica may lack messages that were acknowledged, and the
controller would wait for the end of the master's lease. So the master is told to wait for all
replicas in sync (the setting may change at run time), and the chosen replica is elected when it has
everything that was in the log before that. The lease that the master renews from then on is a
covered one (rmq/controller/leases.py), so the replica is elected at once.

The old master gets its setting back only when it knows that it is a slave: it goes on as master for
some milliseconds, and the new master would lack what the old one acknowledged alone in that time.
If this process is killed in between, the old master waits for all until it is restarted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rmq.client.blocking.replicas import Replicas, ReplicaSet
from rmq.codes import ResponseCode
from rmq.errors import RemoteError, RmqError, UnreachableError
from rmq.format.remoting import Command
from rmq.progress import Progress, no_progress

KEY = "allAckInSyncStateSet"
RENEWALS_S = 5.0  # a master renews its lease each second, and tells then what its acks need
POLL_S = 0.01


@contextmanager
def acks_of_all(
    replicas: Replicas, found: ReplicaSet, broker_id: int, timeout_s: float,
    progress: Progress = no_progress,
) -> Iterator[bool]:  # fmt: skip
    """In the block the master's acks wait for all replicas in sync. Yields whether it had to be
    told to do so. RmqError: the replica did not get everything that was acknowledged in time."""
    master = found.master
    if master is None or not master.alive or replicas.acks_of_all(master.address) is not False:
        yield False
        return
    replicas.set_setting(master.address, KEY, "true")
    is_elected = False
    try:
        end, until = replicas.log_end(master.address), time.monotonic() + timeout_s
        while (has := replicas.acked(master.address, broker_id)) < end:
            progress("bytes of the log", has, end)
            if time.monotonic() > until:
                raise RmqError(
                    f"replica {broker_id} did not get all acknowledged messages within "
                    f"{timeout_s:g} s: `rmq replica status` shows what it lacks"
                )
            time.sleep(POLL_S)
        yield True
        is_elected = True
    finally:
        try:
            if is_elected:
                _until_slave(replicas, master.address, timeout_s)
            replicas.set_setting(master.address, KEY, "false")
        except (UnreachableError, RemoteError) as error:
            raise RmqError(
                f"{master.address} waits for all in sync until it is restarted: {error}. To set "
                f"it back: mqadmin updateBrokerConfig -b {master.address} -k {KEY} -v false"
            ) from None


def elect_soon(replicas: Replicas, name: str, broker_id: int) -> Command:
    """Has the replica elected as soon as the master, which was told to wait for all, has said so to
    the controller. If it does not say so within RENEWALS_S, the answer is STILL_EXIST: the replica
    is elected at the end of the lease, which the master does not renew any more."""
    until = time.monotonic() + RENEWALS_S
    while True:
        reply = replicas.elect(name, broker_id, at_once=True)
        if reply.code != ResponseCode.CONTROLLER_MASTER_STILL_EXIST:
            return reply
        if time.monotonic() > until:
            return replicas.elect(name, broker_id)
        time.sleep(POLL_S)


def _until_slave(replicas: Replicas, address: str, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while not replicas.is_slave(address):
        if time.monotonic() > until:
            raise UnreachableError(f"it does not report within {timeout_s:g} s that it is a slave")
        time.sleep(POLL_S)
