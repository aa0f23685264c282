"""Execution: does the steps of a plan, one after the other, and waits for consumers.

    execution = Execution(cluster, survey, report=print, quiet_s=35)
    outcome = execution.run(plan, system)
    outcome.done, outcome.failed, outcome.left

A step that is refused does not keep other steps from being done. A step that gets no answer ends
the run. Either way, a new plan has the steps that are left.

Producers go on sending to a broker while they have its old route. Clients ask for routes every 30 s
(pollNameServerInterval), and brokers take what comes until then, so that no send fails. So a broker
counts as empty when, for QUIET_S, nothing has been unconsumed and no message has come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from rmq import java_properties
from rmq.client.blocking.cluster import Cluster
from rmq.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from rmq.errors import ProtocolError, RemoteError, UnreachableError
from rmq.format import fastjson
from rmq.names import AUTO_CREATE_TOPIC, ORDER_TOPIC_NAMESPACE
from rmq.scaling.step import (
    Action,
    AwaitConsumers,
    ForbidReading,
    Plan,
    PutGroup,
    PutOrder,
    PutRequestMode,
    PutTopic,
    SetPermission,
    Step,
    Unregister,
)
from rmq.scaling.survey import Survey
from rmq.scaling.unconsumed import Unconsumed

QUIET_S = 35.0
POLL_S = 0.5  # between two looks, or LOOKS_SHARE times what a look took, if that is longer: many
LOOKS_SHARE = 4  # topics and groups make many questions, and the broker has other things to do
REPORT_S = 1.0  # between two lines of progress
AGAIN_S = 10.0  # between two lines that say the same
CHANGE_S = 15.0  # for one change, which waits for a slave and for name servers


class Outcome(msgspec.Struct):
    done: list[Step] = []
    failed: list[tuple[Step, str]] = []
    left: dict[str, Unconsumed] = {}  # what was unconsumed at the end
    drained: list[str] = []


class Execution:
    """Used by one thread. `report` gets lines of progress."""

    def __init__(
        self, cluster: Cluster, survey: Survey, report: Callable[[str], None],
        quiet_s: float = QUIET_S, wait_s: float | None = None, ignored: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """wait_s: how long to wait for consumers; None: until nothing is left.
        ignored: groups that are not waited for."""
        self._cluster, self._survey, self._report = cluster, survey, report
        self._quiet_s, self._wait_s, self._ignored = quiet_s, wait_s, tuple(ignored)

    def run(self, plan: Plan, system: frozenset[str]) -> Outcome:
        outcome = Outcome()
        waits: list[Step] = []
        for step in plan.doable:
            if isinstance(step.action, AwaitConsumers):
                waits.append(step)
                continue
            assert step.action is not None
            if (cause := _blocking_step(plan, step, outcome)) is not None:
                outcome.failed.append((step, f"not tried, because this step failed: {cause.what}"))
                continue
            try:
                self._do(step.action)
            except RemoteError as error:
                outcome.failed.append((step, f"code {error.code}: {error.remark.strip()}"))
                self._report(f"{step.broker}: {step.what}: refused: {error.remark.strip()}")
            else:
                outcome.done.append(step)
                self._report(f"{step.broker}: {step.what}: {step.after or 'gone'}")
        waits = [each for each in waits if _blocking_step(plan, each, outcome) is None]
        if waits:
            self._await(waits, system, outcome)
        return outcome

    # ---- single steps

    def _do(self, action: Action) -> None:
        if isinstance(action, PutGroup):
            body = fastjson.dumps(dict(action.members))
            self._change(action.address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
        elif isinstance(action, ForbidReading):
            fields = {"group": action.group, "topic": action.topic, "readable": False}
            self._change(action.address, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, fields)
        elif isinstance(action, PutTopic):
            self._put_topic(action)
        elif isinstance(action, PutRequestMode):
            body = fastjson.dumps({
                "topic": action.topic, "consumerGroup": action.group, "mode": action.mode,
                "popShareQueueNum": action.pop_share_queue_num,
            })  # fmt: skip
            self._change(action.address, RequestCode.SET_MESSAGE_REQUEST_MODE, {}, body)
        elif isinstance(action, PutOrder):
            self._put_order(action)
        elif isinstance(action, SetPermission):
            self._set_permission(action.address, action.permission)
        elif isinstance(action, Unregister):
            self._unregister(action)

    def _put_topic(self, action: PutTopic) -> None:
        settings = action.settings
        fields: dict[str, object] = {
            "topic": action.topic, "defaultTopic": AUTO_CREATE_TOPIC,
            "readQueueNums": settings.read_queues, "writeQueueNums": settings.write_queues,
            "perm": settings.perm, "topicFilterType": settings.filter_type,
            "topicSysFlag": settings.sys_flag, "order": settings.order,
        }  # fmt: skip
        if action.changes:
            fields["attributes"] = ",".join(action.changes)
        self._change(action.address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)

    def _put_order(self, action: PutOrder) -> None:
        fields = {"namespace": ORDER_TOPIC_NAMESPACE, "key": action.topic}
        for address in self._cluster.name_servers:
            if action.order_conf:
                more = {"value": action.order_conf}
                self._change(address, RequestCode.PUT_KV_CONFIG, {**fields, **more})
            else:
                self._change(address, RequestCode.DELETE_KV_CONFIG, fields)

    def _set_permission(self, address: str, permission: int) -> None:
        """Sets it, and asks for it again: a broker may answer 0 and not do what it was told."""
        body = java_properties.format([("brokerPermission", str(permission))]).encode()
        self._change(address, RequestCode.UPDATE_BROKER_CONFIG, {}, body)
        present = self._survey.permission(address)
        if present != permission:
            raise RemoteError(
                ResponseCode.SYSTEM_ERROR, f"{address} still has brokerPermission={present}"
            )

    def _unregister(self, action: Unregister) -> None:
        fields = {
            "brokerName": action.name, "brokerAddr": action.address,
            "clusterName": action.cluster, "brokerId": action.broker_id,
        }  # fmt: skip
        for address in self._cluster.name_servers:
            self._change(address, RequestCode.UNREGISTER_BROKER, fields)

    def _change(
        self, address: str, code: RequestCode, fields: Mapping[str, object], body: bytes = b""
    ) -> None:
        self._cluster.call(address, code, fields, body, CHANGE_S)

    # ---- consumers

    def _await(self, waits: list[Step], system: frozenset[str], outcome: Outcome) -> None:
        """Looks at the brokers until each is empty, or the time is over."""
        began = time.monotonic()
        watches = {step.broker: _Watch(step) for step in waits}
        while True:
            looked = time.monotonic()
            for name, watch in watches.items():
                self._look(name, watch, system)
            took = time.monotonic() - looked
            waiting = [each for each in watches.values() if each.quiet_for() < self._quiet_s]
            for watch in watches.values():
                watch.tell(self._report, self._quiet_s)
            if not waiting:
                break
            if self._wait_s is not None and time.monotonic() - began >= self._wait_s:
                break
            time.sleep(max(POLL_S, LOOKS_SHARE * took))
        for name, watch in watches.items():
            if watch.left is not None:
                outcome.left[name] = watch.left
            if watch.quiet_for() >= self._quiet_s:
                outcome.drained.append(name)
                outcome.done.append(watch.step)

    def _look(self, name: str, watch: _Watch, system: frozenset[str]) -> None:
        try:
            self._follow_master(name, watch)
            watch.saw(self._survey.unconsumed(name, system).without(self._ignored))
        except (UnreachableError, ProtocolError, RemoteError) as error:
            watch.lost(str(error))

    def _follow_master(self, name: str, watch: _Watch) -> None:
        """Drains the master of now: another replica may have become it, or it was restarted."""
        self._cluster.brokers()
        address = self._cluster.address_of(name)
        if self._survey.permission(address) & PERM_WRITE:
            self._report(f"{name}: {address} takes sends again, and is drained again")
            watch.disturbed()
            self._set_permission(address, PERM_READ)


def _blocking_step(plan: Plan, step: Step, outcome: Outcome) -> Step | None:
    """A step that failed and without which this one would do harm; None: there is none. In a plan
    that adds a broker, the broker must not get into the order of a topic that it did not take. In
    other plans each step of a broker needs all of the broker's earlier steps."""
    for failed, _ in outcome.failed:
        if failed.broker == step.broker and (plan.verb != "add" or _is_of_one_topic(failed, step)):
            return failed
    return None


def _is_of_one_topic(one: Step, other: Step) -> bool:
    topic = getattr(one.action, "topic", None)
    return topic is not None and topic == getattr(other.action, "topic", None)


class _Watch:
    """One broker that is becoming empty, as the looks at it have shown it."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.left: Unconsumed | None = None
        self._quiet_since: float | None = None
        self._told = ("", float("-inf"))  # the last line, and when it was reported
        self._trouble = ""

    def saw(self, left: Unconsumed) -> None:
        is_same = self.left is not None and self.left.ends == left.ends
        if left.waited_for or not is_same:
            self._quiet_since = None if left.waited_for else time.monotonic()
        elif self._quiet_since is None:
            self._quiet_since = time.monotonic()
        self.left, self._trouble = left, ""

    def lost(self, why: str) -> None:
        self._trouble = why
        self.disturbed()

    def disturbed(self) -> None:
        self._quiet_since = None

    def quiet_for(self) -> float:
        return -1.0 if self._quiet_since is None else time.monotonic() - self._quiet_since

    def tell(self, report: Callable[[str], None], quiet_s: float) -> None:
        """Reports a line when it is a new one, and now and then when it is the same."""
        text, now = self._text(quiet_s), time.monotonic()
        is_new, is_end = text != self._told[0], self.quiet_for() >= quiet_s
        if now - self._told[1] >= (REPORT_S if is_new else AGAIN_S) or (is_new and is_end):
            report(f"{self.step.broker}: {text}")
            self._told = (text, now)

    def _text(self, quiet_s: float) -> str:
        if self._trouble:
            return f"cannot be asked: {self._trouble}"
        assert self.left is not None
        if self.left.waited_for:
            return f"{self.left.waited_for} unconsumed: {self.left.text()}"
        if self.quiet_for() >= quiet_s:
            return "nothing is unconsumed"
        return f"nothing is unconsumed; waiting until nothing has come for {quiet_s:g} s"
