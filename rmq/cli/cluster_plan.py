"""`rmq cluster plan|apply add|drain|undrain|remove|replace`: shows a change, and makes it.

    rmq cluster plan add broker-c                 what it would get; nothing is changed
    rmq cluster apply add broker-c --topics a,b   the same, asks, and does it
    rmq cluster apply drain broker-a              it takes no more sends; waits until it is empty
    rmq cluster apply undrain broker-a            it takes sends again
    rmq cluster apply remove broker-a             clients leave it: then it can be stopped
    rmq cluster plan replace broker-a             how it comes back when its machine is gone

Under both, a verb makes the same plan (rmq/scaling): `apply` does what `plan` shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec

from rmq.cli.options import namesrv_option, together
from rmq.cli.output import Output, output_option
from rmq.cli.table import columns
from rmq.client.blocking.cluster import Cluster
from rmq.errors import RmqError
from rmq.scaling import plan as plans
from rmq.scaling.cluster_state import ClusterState
from rmq.scaling.execution import QUIET_S, Execution, Outcome
from rmq.scaling.replacement import replace
from rmq.scaling.step import Plan, Step
from rmq.scaling.survey import Survey
from rmq.scaling.unconsumed import Unconsumed

COLUMNS = columns("BROKER", "WHAT", "FROM", "TO", "BY")

Given = dict[str, Any]
Decorator = Callable[[Any], Any]


class Planned(msgspec.Struct):
    state: ClusterState
    plan: Plan
    unconsumed: dict[str, Unconsumed]


class Verb(msgspec.Struct, frozen=True):
    name: str
    help: str
    make: Callable[[Survey, ClusterState, Given], Planned]
    options: tuple[Decorator, ...] = ()
    doing: tuple[Decorator, ...] = ()  # options of apply alone


@click.group("plan")
def plan() -> None:
    """Show the steps of a change, without making it.

    The commands are those of `rmq cluster apply`, which shows the same plan and carries it out.
    """


@click.group("apply")
def apply() -> None:
    """Add, drain and remove brokers while clients work.

    Shows the plan, asks for confirmation and carries the plan out. If it is interrupted or some
    steps fail, run the same command again: it does what is left.
    """


def _run(verb: Verb, applies: bool, given: Given) -> None:
    output, yes = given["output"], given.get("yes", False)
    if applies and output.is_data and not yes:
        raise click.UsageError(f"-o {output.form} cannot ask for confirmation: add --yes")
    with Cluster(given["namesrv"]) as cluster:
        survey = Survey(cluster)
        planned = verb.make(survey, survey.state(), given)
        if not output.is_data:
            _show(planned.plan, output)
        if not applies:
            if output.is_data:
                output.value(_plain(planned))
            return
        _do(cluster, survey, planned, given)


def _do(cluster: Cluster, survey: Survey, planned: Planned, given: Given) -> None:
    output, found = given["output"], planned.plan
    if found.doable and not given["yes"]:
        output.confirm("Carry out this plan?")
    execution = Execution(
        cluster, survey, lambda line: click.echo(line, err=output.is_data),
        given.get("quiet_s", QUIET_S), given.get("wait_s"), given.get("ignored", ()),
    )  # fmt: skip
    outcome = execution.run(found, planned.state.system)
    if output.is_data:
        output.value(_plain(planned) | _plain_outcome(outcome))
    problem = _problem(found, outcome)
    if problem and output.is_data:
        sys.exit(1)
    if problem:
        raise RmqError(problem)
    for name in outcome.drained if not output.is_data else ():
        click.echo(f"{name} is drained and can be removed: `rmq cluster apply remove {name}`")


def _problem(found: Plan, outcome: Outcome) -> str:
    """Why the change is not complete; empty if it is."""
    if outcome.failed:
        lines = [f"{step.broker}: {step.what}: {why}" for step, why in outcome.failed]
        return "not done:\n  " + "\n  ".join(lines) + "\nRun this again to do what is left"
    waited = {each.broker for each in found.steps if each.what == plans.UNCONSUMED}
    late = [name for name in found.brokers if name in waited and name not in outcome.drained]
    if late:
        rows = [f"{name}: {outcome.left[name].text() if name in outcome.left else 'not known'}"
                for name in late]  # fmt: skip
        return (
            "not drained yet: " + "; ".join(rows) + ". These brokers take no sends any more; run "
            "this again to go on waiting"
        )
    if found.by_hand and not found.doable and found.verb == "replace":
        return "rmq can do none of these steps: they are for you to do"
    return ""


# ---- what is shown


def _show(found: Plan, output: Output) -> None:
    if found.steps:
        output.rows(COLUMNS, [(*each.row(), _by(each)) for each in found.steps])
    else:
        click.echo("there is nothing to do")
    for note in dict.fromkeys(found.notes):
        click.echo(f"note: {note}")


def _by(step: Step) -> str:
    return "rmq" if step.action is not None else "you"


def _plain(planned: Planned) -> Given:
    return {
        "verb": planned.plan.verb,
        "brokers": planned.plan.brokers,
        "steps": [_plain_step(each) for each in planned.plan.steps],
        "notes": list(dict.fromkeys(planned.plan.notes)),
        "unconsumed": {name: _plain_left(left) for name, left in planned.unconsumed.items()},
    }


def _plain_step(step: Step) -> Given:
    names = ("broker", "what", "from", "to")
    return {**dict(zip(names, step.row(), strict=True)), "by": _by(step)}


def _plain_left(left: Unconsumed) -> Given:
    groups = [{"group": group, "topic": topic, "messages": count}
              for (topic, group), count in sorted(left.by_group.items())]  # fmt: skip
    return {
        "messages": left.waited_for, "groups": groups, "internal": left.internal,
        "unread": left.unread, "broadcast": sorted(left.broadcast),
    }  # fmt: skip


def _plain_outcome(outcome: Outcome) -> Given:
    return {
        "done": [_plain_step(each) for each in outcome.done],
        "failed": [{**_plain_step(each), "why": why} for each, why in outcome.failed],
        "drained": outcome.drained,
        "unconsumed": {name: _plain_left(left) for name, left in outcome.left.items()},
    }


# ---- the verbs


def _make_add(survey: Survey, state: ClusterState, given: Given) -> Planned:
    text = given["topics"]
    topics = None if text is None else [each.strip() for each in text.split(",") if each.strip()]
    return Planned(state, plans.add(state, given["brokers"], topics), {})


def _make_drain(survey: Survey, state: ClusterState, given: Given) -> Planned:
    left = _unconsumed(survey, state, given)
    return Planned(state, plans.drain(state, given["brokers"], left, given["force"]), left)


def _make_undrain(survey: Survey, state: ClusterState, given: Given) -> Planned:
    return Planned(state, plans.undrain(state, given["brokers"]), {})


def _make_remove(survey: Survey, state: ClusterState, given: Given) -> Planned:
    left = _unconsumed(survey, state, given)
    return Planned(state, plans.remove(state, given["brokers"], left, given["force"]), left)


def _make_replace(survey: Survey, state: ClusterState, given: Given) -> Planned:
    (name,) = given["brokers"]
    return Planned(state, replace(state, name), {})


def _unconsumed(survey: Survey, state: ClusterState, given: Given) -> dict[str, Unconsumed]:
    """What is still unconsumed on each of the brokers that answers."""
    return {
        name: survey.unconsumed(name, state.system).without(given["ignored"])
        for name in given["brokers"]
        if name in state.brokers and state.brokers[name].answers
    }


SEVERAL = click.argument("brokers", nargs=-1, required=True, metavar="BROKER...")
ONE = click.argument("brokers", nargs=1, metavar="BROKER", callback=lambda _c, _p, name: (name,))
IGNORED = click.option("--ignore", "ignored", multiple=True, metavar="GROUP",
                       help="Do not wait for this group. May be given several times.")  # fmt: skip
YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")

VERBS = (
    Verb(
        "add",
        """Give brokers the topics and groups of the others.

        The brokers must run and be in `rmq cluster list`. Topics get the number of queues, the
        permissions, order and attributes that they have on the other brokers, groups their
        settings. Clients find the new queues when they refresh their routes, within 30 seconds.
        """,
        _make_add,
        (SEVERAL, click.option("--topics", metavar="NAME[,...]",
                               help="Only these topics.  [default: all topics of users]")),
    ),
    Verb(
        "drain",
        """Stop sends to brokers, and wait until all is consumed.

        The command waits for everything that groups have not consumed: messages, retries, delayed
        and timed messages, open transactions and pops. After that a broker can be removed. `rmq
        cluster apply undrain` makes it take sends again at any time.
        """,
        _make_drain,
        (SEVERAL, IGNORED,
         click.option("--force", is_flag=True,
                      help="Drain even if no other broker takes sends to a topic.")),
        (click.option("--wait", "wait_s", type=click.FloatRange(0), metavar="SECONDS",
                      help="Wait at most this long.  [default: until all is consumed]"),
         click.option("--quiet", "quiet_s", type=click.FloatRange(0), default=QUIET_S,
                      show_default=True, metavar="SECONDS",
                      help="A broker is empty if nothing has come for this long. Clients send "
                      "by old routes for up to 30 seconds.")),
    ),
    Verb("undrain", "Let brokers take sends again.", _make_undrain, (SEVERAL,)),
    Verb(
        "remove",
        """Make clients leave drained brokers, so that you can stop them.

        Refused if a broker takes sends, or holds messages that were not read. You stop the
        processes yourself afterwards: rmq stops no broker and deletes no store.
        """,
        _make_remove,
        (SEVERAL, IGNORED,
         click.option("--force", is_flag=True,
                      help="Remove them anyway; the plan says what is lost.")),
    ),
    Verb(
        "replace",
        """Show how to bring back a broker whose machine is gone.

        Its replicas have its messages: see `rmq replica`. All steps are for you to do.
        """,
        _make_replace,
        (ONE,),
    ),
)  # fmt: skip


def _register(group: click.Group, verb: Verb, applies: bool) -> None:
    @group.command(verb.name, help=verb.help)
    @together(
        *verb.options,
        *((*verb.doing, YES) if applies else ()),
        namesrv_option,
        output_option,
    )
    def command(**given: Any) -> None:
        _run(verb, applies, given)


for _verb in VERBS:
    _register(plan, _verb, False)
    _register(apply, _verb, True)
