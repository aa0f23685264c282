"""Controller link: a broker's questions to the controller that leads, and the answers.

    link = ControllerLink(ControllerAddresses("h1:9878;h2:9878"), "DefaultCluster", "broker-a")
    info = await link.replica_info(2, master_epoch=4, is_covered=True)
    info.master_id, info.sync_state.members, info.lease_until_ms

Any controller tells which one leads (1005). A controller that does not lead any more says so
(2007); then, and when the connection is lost, the link finds the next one and asks it the same.
Only a change of the sync state set whose answer was lost is not repeated, because it may have been
made.

A lease counts from before its question was sent, so it never ends later here than at the
controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from rmq.base import clock
from rmq.broker.replication.controller_addresses import ControllerAddresses
from rmq.broker.replication.epochs import EPOCH_MAX
from rmq.broker.replication.identity import FIRST_ID, ID_MAX
from rmq.broker.replication.sync_state import SyncState
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, RmqError
from rmq.format import fastjson
from rmq.format.remoting import Command, field_texts
from rmq.serving.remoting_client import CallError, RemotingClient, parse_address

ANSWER_S = 2.0
CHANGE_S = 5.0  # for a change of the sync state set, with two questions to a store of up to 2 s
NOBODY = -1  # the brokerId when the asker of an election is not a candidate
ATTEMPTS = 3
MEMBERS_MAX = 1024
LEASE_MS_MAX = 86_400_000


class ControllerError(RmqError):
    """The controller refused, with this code; or no controller that leads can be reached (code
    None)."""

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, str(self)), self.__dict__


class ReplicaInfo(msgspec.Struct, frozen=True):
    """Who is master, and who is in sync with it.

    `lease_ms`: for how long after `asked_ms` (milliseconds of clock.boot()) the master that asked
    may go on; 0: no longer than before; None: this controller grants no leases, or none was asked
    for."""

    master_id: int | None = None
    master_address: str = ""
    master_epoch: int = 0
    sync_state: SyncState = msgspec.field(default_factory=SyncState)
    lease_ms: int | None = None
    asked_ms: int = 0

    @property
    def lease_until_ms(self) -> int:
        return self.asked_ms + (self.lease_ms or 0)


class ControllerLink:
    """Owned by one event loop; questions of several callers go one after the other."""

    def __init__(self, addresses: ControllerAddresses, cluster: str, name: str) -> None:
        self._addresses = addresses
        self._names = {"clusterName": cluster, "brokerName": name}
        self._one_by_one = asyncio.Lock()
        self._leader: RemotingClient | None = None

    def close(self) -> None:
        leader, self._leader = self._leader, None
        if leader is not None:
            leader.close()

    # ---- questions; any failure is a ControllerError

    async def next_id(self) -> int:
        """The id that the next new replica gets."""
        reply, _ = await self._ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, self._names)
        with _Checked():
            return int(reply.int_field("nextBrokerId", minimum=FIRST_ID, maximum=ID_MAX))

    async def apply_id(self, broker_id: int, check_code: str) -> None:
        """Applies for an id. CONTROLLER_BROKER_ID_INVALID: another replica has it."""
        fields = {**self._names, "appliedBrokerId": broker_id, "registerCheckCode": check_code}
        await self._ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, fields)

    async def register(self, broker_id: int, address: str) -> ReplicaInfo:
        """Registers the address of this replica. The answer has no master if none is known to
        live."""
        fields = {**self._names, "brokerId": broker_id, "brokerAddress": address}
        reply, asked_ms = await self._ask(RequestCode.CONTROLLER_REGISTER_BROKER, fields)
        with _Checked():
            return replica_info(reply, asked_ms)

    async def elect(self, broker_id: int) -> ReplicaInfo:
        """Asks for an election; the present master may stay. CONTROLLER_ELECT_MASTER_FAILED: nobody
        can be master."""
        fields = {**self._names, "brokerId": broker_id, "designateElect": False}
        stays = ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        reply, asked_ms = await self._ask(RequestCode.CONTROLLER_ELECT_MASTER, fields, also=stays)
        with _Checked():
            return replica_info(reply, asked_ms)

    async def replace(self) -> None:
        """Says that the master does not live, so that another is elected or nobody is master. If
        the controller takes the master for living, nothing happens."""
        fields = {**self._names, "brokerId": NOBODY, "designateElect": False}
        stays = ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        try:
            await self._ask(RequestCode.CONTROLLER_ELECT_MASTER, fields, also=stays)
        except ControllerError as error:
            if error.code != ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE:
                raise

    async def replica_info(
        self, broker_id: int, master_epoch: int = 0, is_covered: bool = False
    ) -> ReplicaInfo:
        """Asks who is master; the answer has a lease if the asker is the master of that epoch.
        `is_covered`: each of its acknowledgements needs the whole sync state set."""
        asker = {"rmqBrokerId": broker_id, "rmqMasterEpoch": master_epoch}
        fields = {**self._names, **asker, "rmqCovered": is_covered}
        reply, asked_ms = await self._ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, fields)
        with _Checked():
            return replica_info(reply, asked_ms)

    async def alter_sync_state(
        self,
        master_id: int,
        master_epoch: int,
        members: frozenset[int],
        set_epoch: int,
        *,
        is_new_epoch: bool = False,
    ) -> ReplicaInfo:
        """Changes the sync state set; returns the set after that. This may take longer than a lease
        can wait (CHANGE_S), so leases are asked for on another link. After a ControllerError the
        change may or may not have been made, except for codes that say that it was not
        (sync_watch.REFUSALS). `is_new_epoch`: the set may be the same as now
        (SyncChange.is_open)."""
        fields = {
            **self._names,
            "masterBrokerId": master_id,
            "masterEpoch": master_epoch,
            "rmqNewEpoch": is_new_epoch or None,
        }
        body = {"syncStateSet": sorted(members), "syncStateSetEpoch": set_epoch}
        reply, asked_ms = await self._ask(
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            fields,
            msgspec.json.encode(body),
            answer_s=CHANGE_S,
            is_repeated=False,
        )
        with _Checked():
            return ReplicaInfo(
                master_id=master_id,
                master_epoch=master_epoch,
                sync_state=_sync_state(reply, "newSyncStateSetEpoch"),
                asked_ms=asked_ms,
            )

    async def resign(self, broker_id: int, master_epoch: int) -> ReplicaInfo:
        """Says that this broker is master no more and acknowledges nothing; returns who is master
        after that. RocketMQ's controller ignores it."""
        asker = {"rmqBrokerId": broker_id, "rmqMasterEpoch": master_epoch, "rmqResign": True}
        reply, asked_ms = await self._ask(
            RequestCode.CONTROLLER_GET_REPLICA_INFO, {**self._names, **asker}
        )
        with _Checked():
            return replica_info(reply, asked_ms)

    # ---- sending the questions

    async def _ask(
        self,
        code: RequestCode,
        fields: Mapping[str, Any],
        body: bytes = b"",
        *,
        also: ResponseCode = ResponseCode.SUCCESS,
        answer_s: float = ANSWER_S,
        is_repeated: bool = True,
    ) -> tuple[Command, int]:
        """(the reply, when the question was sent). `also`: a code that counts as an answer, besides
        SUCCESS."""
        async with self._one_by_one:
            problem, failed = "", set[str]()
            for _ in range(ATTEMPTS):
                leader = await self._lead(failed)
                asked_ms = int(clock.boot() * 1000)
                request = Command(code=code, fields=field_texts(fields), body=body)
                failed.add(leader.address)
                try:
                    reply = await leader.call(request, answer_s)
                except CallError as error:
                    self.close()
                    problem = str(error)
                    if not is_repeated:
                        break
                    continue
                except BaseException:
                    self.close()
                    raise
                if reply.code == ResponseCode.CONTROLLER_NOT_LEADER:
                    self.close()
                    problem = f"{leader.address} does not lead"
                elif reply.code in (ResponseCode.SUCCESS, also):
                    return reply, asked_ms
                else:
                    raise ControllerError(reply.code, _refusal(leader, reply))
            raise ControllerError(None, f"the controller cannot be asked: {problem}")

    async def _lead(self, failed: set[str]) -> RemotingClient:
        """A connection to the controller that leads."""
        if self._leader is None:
            address = await self._leading(failed)
            self._addresses.leads(address)
            self._leader = RemotingClient(address)
        return self._leader

    async def _leading(self, failed: set[str]) -> str:
        """Asks all controllers at once who leads. The first answer counts that names a leader which
        has not just failed, if there is such an answer: some controllers may take a while to notice
        that the leader has failed."""
        addresses = await self._addresses.all()
        if not addresses:
            raise ControllerError(None, "no address of controllerAddr can be looked up")
        tasks = [asyncio.ensure_future(_leader_by(each)) for each in addresses]
        problems, known = [], ""
        try:
            for answer in asyncio.as_completed(tasks):
                try:
                    known = await answer
                except (CallError, ProtocolError) as error:
                    problems.append(str(error))
                else:
                    if known not in failed:
                        return known
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if known:
            return known
        raise ControllerError(None, "no controller leads: " + "; ".join(sorted(problems)))


async def _leader_by(address: str) -> str:
    """Which controller leads, as this one says; CallError, ProtocolError."""
    client = RemotingClient(address)
    try:
        question = Command(code=RequestCode.CONTROLLER_GET_METADATA_INFO)
        reply = await client.call(question, ANSWER_S)
    finally:
        client.close()
    if reply.code != ResponseCode.SUCCESS:
        raise CallError(_refusal(client, reply))
    if reply.bool_field("isLeader", False):
        return address  # this address is known to be reachable
    found = reply.text_field("controllerLeaderAddress")
    if not found:
        raise CallError(f"{address} knows of no leader")
    parse_address(found)
    return found


def _refusal(client: RemotingClient, reply: Command) -> str:
    return f"controller {client.address} answers {reply.code}: {(reply.remark or '')[:500]}"


# ---- replies


class _Checked:
    """Turns errors of missing or wrong fields into a ControllerError: they are not the caller's."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (ProtocolError, CallError)):
            raise ControllerError(None, f"the controller's answer: {error}") from None


def replica_info(command: Command, asked_ms: int = 0) -> ReplicaInfo:
    """Reads a reply, or a notice (NOTIFY_BROKER_ROLE_CHANGED); ProtocolError, CallError."""
    master_id = command.int_field("masterBrokerId", -1, -1, ID_MAX)
    address = command.text_field("masterAddress") or ""
    if master_id >= FIRST_ID:
        parse_address(address)
    return ReplicaInfo(
        master_id=master_id if master_id >= FIRST_ID else None,
        master_address=address if master_id >= FIRST_ID else "",
        master_epoch=command.int_field("masterEpoch", 0, 0, EPOCH_MAX),
        sync_state=_sync_state(command, "syncStateSetEpoch"),
        lease_ms=_lease_ms(command),
        asked_ms=asked_ms,
    )


class _SetBody(msgspec.Struct):
    syncStateSet: list[int] | None = None
    syncStateSetEpoch: int | None = None


def _sync_state(command: Command, field: str) -> SyncState:
    """Reads the members from the body; the epoch from the body too, or else from the header."""
    try:
        content = fastjson.loads_object(command.body) if command.body else {}
        read = msgspec.convert(content, _SetBody, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"sync state set: {error}") from None
    members = read.syncStateSet or []
    if len(members) > MEMBERS_MAX or any(not FIRST_ID <= each <= ID_MAX for each in members):
        raise ProtocolError(f"sync state set: {str(members)[:80]} are no ids of brokers")
    epoch = read.syncStateSetEpoch
    if epoch is None:
        epoch = command.int_field(field, 0)
    if not 0 <= epoch <= EPOCH_MAX:
        raise ProtocolError(f"sync state set: epoch {epoch}")
    return SyncState(frozenset(members), epoch)


def _lease_ms(command: Command) -> int | None:
    found: int | None = command.int_field("rmqLeaseMillis", None, 0, LEASE_MS_MAX)
    return found
