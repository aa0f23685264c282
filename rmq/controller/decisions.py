"""Decisions: what a request changes in a broker set, and how it is answered. No I/O, no clock.

    decision = alter_sync_state_set(broker_set, request, live)
    decision.code       SUCCESS, or the CONTROLLER_ code of the first rule that the request breaks
    decision.after      the set as it must be stored; None: nothing changes
    decision.removed    the whole set must be forgotten

The caller stores `after` only if the stored set is still the one that the decision was made for;
otherwise it decides anew (state_store.py). So of two controllers that both take themselves for the
leader one wins, and the other sees what it did.

The rules, their order and codes are those of Apache's controller (ReplicasInfoManager,
DefaultElectPolicy), which its brokers rely on. These differences are on purpose:

    log ends are compared with all 64 bits, not by the low 32 bits of their difference
    a broker that applies twice gets the same id, not a new one
    a change of the sync state set that is asked for twice is a success both times
    a clean that would leave replicas but nobody in sync is refused: no election could end that
    a master that is cleaned is no master any more
    a member of the set whose log is empty, or has lost an epoch, is no candidate (electable()); one
    that may have lost the end of its log is a candidate after those that have not
    a first master with such a log is refused while another replica has a longer one (_with_more())

Example: master 1 of epoch 4, in sync {1, 2}; 1 is silent. elect() gives master 2, epoch 5, in sync
{2}: from now on 1 cannot change the set, because its epoch is 4, and cannot acknowledge without 2.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rmq.codes import ResponseCode
from rmq.controller.broker_set import (
    ADDRESS_CHARACTERS_MAX,
    FIRST_ID,
    REPLICAS_MAX,
    BrokerSet,
    Replica,
)
from rmq.controller.live_replicas import LiveReplica

Live = Mapping[int, LiveReplica]  # by broker id; a replica that is missing is not known to live


class Decision(msgspec.Struct, frozen=True):
    code: ResponseCode = ResponseCode.SUCCESS
    remark: str | None = None
    after: BrokerSet | None = None
    removed: bool = False

    @property
    def changes(self) -> bool:
        return self.after is not None or self.removed


# ------------------------------------------------------------------- ids


def next_broker_id(found: BrokerSet | None) -> int:
    return found.next_id if found is not None else FIRST_ID


def apply_broker_id(
    found: BrokerSet | None, cluster: str, name: str, broker_id: int, check_code: str
) -> Decision:
    """The broker with this `check_code` ("address;milliseconds") applies for the id."""
    refused = ResponseCode.CONTROLLER_BROKER_ID_INVALID
    address = check_code.split(";", 1)[0]
    if not 0 < len(check_code) <= ADDRESS_CHARACTERS_MAX:
        return Decision(refused, f"a check code of {len(check_code)} characters")
    if found is None:
        if broker_id != FIRST_ID:
            return Decision(refused, f"broker {name} is not known; its first id is {FIRST_ID}")
        found = BrokerSet(cluster, name)
    if stranger := _of_another(found, cluster):
        return Decision(refused, stranger)
    known = found.replicas.get(broker_id)
    if known is not None:
        if known.check_code == check_code:
            return Decision()  # its answer was lost
        return Decision(refused, f"id {broker_id} of broker {name} is that of {known.address}")
    # A lower id that nobody has: its replica was cleaned, and comes back with the id in its file.
    if not FIRST_ID <= broker_id <= found.next_id:
        return Decision(
            refused, f"id {broker_id} of broker {name}: the next one is {found.next_id}"
        )
    if len(found.replicas) >= REPLICAS_MAX:
        return Decision(refused, f"broker {name} has {REPLICAS_MAX} replicas, which is the most")
    return Decision(
        after=msgspec.structs.replace(
            found,
            replicas=found.replicas | {broker_id: Replica(address, check_code)},
            next_id=max(found.next_id, broker_id + 1),
        )
    )


def _of_another(found: BrokerSet, cluster: str | None) -> str:
    """What is wrong with the cluster that the request names and was let in for. cluster None: the
    request names none, and was let in for all."""
    if cluster is None or found.cluster == cluster:
        return ""
    return f"broker {found.name} is of cluster {found.cluster}, not of {cluster}"


def register(found: BrokerSet | None, cluster: str, broker_id: int, address: str) -> Decision:
    """A broker with an id registers its address."""
    unknown = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    if found is None:
        return Decision(unknown, "this broker name has no ids yet: apply for one first")
    if stranger := _of_another(found, cluster):
        return Decision(ResponseCode.CONTROLLER_BROKER_ID_INVALID, stranger)
    known = found.replicas.get(broker_id)
    if known is None:
        return Decision(
            unknown, f"broker {found.name} has no replica {broker_id}: apply for an id first"
        )
    if known.address == address:
        return Decision()
    if not 0 < len(address) <= ADDRESS_CHARACTERS_MAX:
        return Decision(
            ResponseCode.CONTROLLER_INVALID_REQUEST, f"an address of {len(address)} characters"
        )
    moved = {broker_id: Replica(address, known.check_code)}
    return Decision(after=msgspec.structs.replace(found, replicas=found.replicas | moved))


# ------------------------------------------------------------------- who is in sync


class Alteration(msgspec.Struct, frozen=True):
    """A master wants its sync state set, which has `set_epoch` now, to become `wanted`.
    `is_new_epoch`: this may be the present set, which then gets a new epoch, so that another
    question with the old epoch that is still on its way fails.
    """

    master_id: int
    master_epoch: int
    wanted: frozenset[int]
    set_epoch: int
    is_new_epoch: bool = False


def alter_sync_state_set(found: BrokerSet | None, asked: Alteration, live: Live) -> Decision:
    if found is None:
        return Decision(
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "this broker name is not known"
        )
    if _is_made(found, asked):
        return Decision()  # the answer to it was lost, the store's or this controller's
    refusal = _refused_alteration(found, asked, live)
    if refusal is not None:
        return refusal
    return Decision(
        after=msgspec.structs.replace(
            found, sync_state_set=asked.wanted, sync_state_set_epoch=found.sync_state_set_epoch + 1
        )
    )


def _is_made(found: BrokerSet, asked: Alteration) -> bool:
    """Whether this master's change is already made: the set is as asked for, one epoch later."""
    master = found.master_id, found.master_epoch
    return master == (asked.master_id, asked.master_epoch) and (
        found.sync_state_set == asked.wanted and found.sync_state_set_epoch == asked.set_epoch + 1
    )


def _refused_alteration(found: BrokerSet, asked: Alteration, live: Live) -> Decision | None:
    """Why the change is refused. The order is that of Apache's controller, as brokers act on the
    code."""
    code = ResponseCode
    if asked.wanted == found.sync_state_set and not asked.is_new_epoch:
        return Decision(
            code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            f"the sync state set is already {sorted(asked.wanted)}",
        )
    if found.master_id != asked.master_id:
        return Decision(
            code.CONTROLLER_INVALID_MASTER,
            f"the master of {found.name} is {found.master_id}, not {asked.master_id}",
        )
    if found.master_epoch != asked.master_epoch:
        return Decision(
            code.CONTROLLER_FENCED_MASTER_EPOCH,
            f"the master's epoch is {found.master_epoch}, not {asked.master_epoch}",
        )
    if found.sync_state_set_epoch != asked.set_epoch:
        return Decision(
            code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
            f"the set's epoch is {found.sync_state_set_epoch}, not {asked.set_epoch}",
        )
    for broker_id in sorted(asked.wanted):
        if broker_id not in found.replicas:
            return Decision(
                code.CONTROLLER_INVALID_REPLICAS, f"{found.name} has no replica {broker_id}"
            )
        if broker_id not in live:
            return Decision(
                code.CONTROLLER_BROKER_NOT_ALIVE,
                f"replica {broker_id} of {found.name} does not send heartbeats",
            )
    if asked.master_id not in asked.wanted:
        return Decision(
            code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            f"master {asked.master_id} is not in {sorted(asked.wanted)}",
        )
    return None


# ------------------------------------------------------------------- who is master

DOUBT_S = 120.0  # how long members in doubt wait; machines that lost power together boot meanwhile
NOBODY = -1  # brokerId of an election that the controller itself asks for


class Election(msgspec.Struct, frozen=True):
    """`broker_id`: which replica asks, NOBODY for the controller itself. `designated`: it must be
    that replica and no other. `unclean`: a replica whose log may lack acknowledged messages may be
    elected, too. `at_once`: elect now or not at all. `has_waited`: members that may have more than
    those in doubt were waited for (is_waiting())."""

    broker_id: int = NOBODY
    designated: bool = False
    unclean: bool = False
    at_once: bool = False
    has_waited: bool = False
    cluster: str | None = None  # to which the set must belong; None: to any


def elect(found: BrokerSet | None, asked: Election, live: Live) -> Decision:
    if found is None:
        return Decision(
            ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "this broker name is not known"
        )
    if stranger := _of_another(found, asked.cluster):
        return Decision(ResponseCode.CONTROLLER_INVALID_REQUEST, stranger)
    chosen = _choose(found, asked, live)
    if chosen is not None and chosen == found.master_id:
        return Decision(
            ResponseCode.CONTROLLER_MASTER_STILL_EXIST,
            f"master {chosen} of {found.name} lives; no other one is needed",
        )
    if chosen is not None:
        return Decision(
            after=msgspec.structs.replace(
                found,
                master_id=chosen,
                master_epoch=found.master_epoch + 1,
                sync_state_set=frozenset((chosen,)),
                sync_state_set_epoch=found.sync_state_set_epoch + 1,
            )
        )
    why, gone = _why_not_first(found, asked, live) or _why_nobody(found, asked, live), None
    if found.master_id is not None:
        gone = msgspec.structs.replace(found, master_id=None, master_epoch=found.master_epoch + 1)
    if asked.broker_id != NOBODY:
        candidates = electable(found, live, asked.has_waited)
        is_short = found.master_id in live and found.master_id not in candidates
        return Decision(
            ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
            f"no master for {found.name}: {why}",
            gone if is_short else None,
        )
    return Decision(
        ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, f"{found.name} has no master: {why}", gone
    )


def _choose(found: BrokerSet, asked: Election, live: Live) -> int | None:
    if found.master_epoch == 0 and asked.broker_id in found.replicas:
        # Nothing was acknowledged yet, so the first that asks becomes master.
        return None if _with_more(found, asked, live) else asked.broker_id
    candidates = [electable(found, live, asked.has_waited)]
    if asked.unclean or found.master_epoch == 0:
        candidates.append([each for each in found.replicas if each in live])
    for living in candidates:
        if not living:
            continue
        if found.master_id in candidates[0] and (
            not asked.designated or asked.broker_id == found.master_id
        ):
            return found.master_id
        if asked.designated:
            if asked.broker_id in living:
                return asked.broker_id
            continue
        return min(living, key=lambda each: _rank(each, live[each]))
    return None


def _with_more(found: BrokerSet, asked: Election, live: Live) -> list[int]:
    """In a set that had no master yet, the replicas with a longer log than the asker, if the
    asker's log is empty or has lost its end; for example brokers that ran without a controller.
    Empty for an unclean election, in which an operator accepts losses. A replica with the longest
    log always gets an empty list."""
    asker = live.get(asked.broker_id)
    if found.master_epoch > 0 or asked.unclean or asker is None or not asker.lacks:
        return []
    least = max(asker.max_offset, 0)
    return sorted(each for each in found.replicas.keys() & live if live[each].max_offset > least)


def _why_not_first(found: BrokerSet, asked: Election, live: Live) -> str:
    others = _with_more(found, asked, live)
    if not others:
        return ""
    asker = f"{asked.broker_id} (its log {live[asked.broker_id].lacks})"
    return (
        f"{others} has more than {asker}, and is to be the first master. If what it has is not "
        "wanted, stop it, or set enableElectUncleanMaster=true at the controller"
    )


def electable(found: BrokerSet, live: Live, has_waited: bool = False) -> list[int]:
    """The members of the sync state set that may be master. A member whose log is empty, or has
    lost an epoch, lacks what it acknowledged: its disk was replaced, or there was a power cut. It
    may not be master while another member has everything, or is away and may have it.

    A member in doubt may lack the newest of it. It may not be master while another member is sure
    to have everything, nor, for a while, when another one is away: that one may be back soon. After
    a power cut of all of them those in doubt are all that there is, perhaps but for one whose
    machine is lost, so they do not wait without end."""
    living = [each for each in found.sync_state_set if each in live]
    whole = [each for each in living if not live[each].lacks]
    sure = [each for each in whole if not live[each].is_doubted]
    if sure:
        return sure
    if len(living) == len(found.sync_state_set):
        return whole or living
    return whole if has_waited else []


def is_waiting(found: BrokerSet | None, live: Live) -> bool:
    """Whether members in doubt wait for others that may have more."""
    if found is None or electable(found, live):
        return False
    return bool(electable(found, live, has_waited=True))


def _why_nobody(found: BrokerSet, asked: Election, live: Live) -> str:
    members = sorted(found.sync_state_set)
    if not asked.has_waited and is_waiting(found, live):
        doubted = [each for each in members if each in live and not live[each].lacks]
        away = [each for each in members if each not in live]
        return (
            f"of {members}, who are in sync, {doubted} may have lost what was acknowledged last, "
            f"as their machines were started again, and for {DOUBT_S:g} s {away} are waited for, "
            "which may have it"
        )
    short = [
        f"{each} (its log {live[each].lacks})"
        for each in members
        if each in live and live[each].lacks
    ]
    if not short:
        return f"none of {members}, who are in sync, lives"
    why = f"of {members}, who are in sync, {', '.join(short)} lacks what was acknowledged"
    if away := [each for each in members if each not in live]:
        why += (
            f". Start {away}, which may have it; should none come back, take {away} off (rmq "
            "replica remove), or set enableElectUncleanMaster=true at the controller"
        )
    return why


def _rank(broker_id: int, replica: LiveReplica) -> tuple[int, int, int, int]:
    """The smallest rank is the best: newest epoch, then longest log, then preferred priority."""
    return -replica.epoch, -replica.max_offset, replica.priority, broker_id


# ------------------------------------------------------------------- replicas gone for good


class Clean(msgspec.Struct, frozen=True):
    """Removal of replicas. `ids`: which; empty: the whole broker set. `living`: even replicas that
    live."""

    ids: frozenset[int] = frozenset()
    living: bool = False
    cluster: str | None = None  # as in Election


def clean(found: BrokerSet | None, asked: Clean, live: Live) -> Decision:
    refused = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    if found is None:
        return Decision(refused, "this broker name is not known")
    if stranger := _of_another(found, asked.cluster):
        return Decision(refused, stranger)
    is_whole = not asked.ids or asked.ids >= found.replicas.keys()
    going = found.replicas.keys() if is_whole else asked.ids
    if not asked.living and (alive := sorted(going & live.keys())):
        return Decision(refused, f"replicas {alive} of {found.name} live; stop them first")
    if is_whole:
        if not asked.living and not asked.ids and found.master_id is not None:
            return Decision(refused, f"{found.name} has a master, {found.master_id}")
        return Decision(removed=True)
    in_sync = found.sync_state_set - asked.ids
    if found.sync_state_set and not in_sync:
        return Decision(
            refused,
            f"that would leave {found.name} with replicas and none of them in sync; have one of "
            "the others join first, or clean all",
        )
    after = msgspec.structs.replace(
        found,
        replicas={key: each for key, each in found.replicas.items() if key not in asked.ids},
        sync_state_set=in_sync,
    )
    if in_sync != found.sync_state_set:
        after = msgspec.structs.replace(after, sync_state_set_epoch=found.sync_state_set_epoch + 1)
    if found.master_id in asked.ids:
        after = msgspec.structs.replace(after, master_id=None, master_epoch=found.master_epoch + 1)
    return Decision(after=after)
