"""Authorization: whether a user may do what a request wants. Pure functions of the user, its ACL
and where the request comes from.

    Super user                                  yes
    each resource that the request touches      an entry decides (policy.py); no if none matches

The texts are RocketMQ's.

Example: refusal(alice, acl, [Wanted(topic("t"), PUB)], address("10.0.0.1")) is
"User:alice has no permission to access Topic:t from 10.0.0.1, no matched policies.".
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rmq.auth.policy import Acl, Action, Decision
from rmq.auth.resource import Resource
from rmq.auth.user import User
from rmq.base import networks
from rmq.base.networks import Address


class Wanted(msgspec.Struct, frozen=True):
    """What a request wants of a resource: permission for one of the actions is enough."""

    resource: Resource
    actions: frozenset[Action]


def refusal(user: User, acl: Acl, wanted: Iterable[Wanted], source: Address | None) -> str:
    """Why the request is refused; empty: it may be served."""
    if user.is_super:
        return ""
    for each in wanted:
        decision = acl.decision(each.resource, each.actions, source)
        if decision is not Decision.ALLOW:
            reason = "no matched policies" if decision is None else "the decision is deny"
            place = "an unknown address" if source is None else source
            return (
                f"User:{user.name} has no permission to access {each.resource} from {place}, "
                f"{reason}."
            )
    return ""


def address(text: str) -> Address | None:
    """The address in 10.0.0.1:1234, 10.0.0.1 or [::1]:1234; None if there is none. An IPv4 address
    as an IPv6 socket gives it is turned back into the IPv4 address."""
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    try:
        return networks.peer(host)
    except ValueError:
        return None
