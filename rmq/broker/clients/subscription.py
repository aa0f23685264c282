"""Subscription: one group's subscription of one topic, as heartbeats and pulls state it.

    {"topic":"t","subString":"a || b","tagsSet":["a","b"],"codeSet":[97,98],
     "subVersion":1763726400000,"expressionType":"TAG","classFilterMode":false}

The reactor filters by tag codes: Java's String.hashCode of each tag. They are computed here from
the text; those on the wire are ignored. Only "*" and the empty text mean every message: tags are
trimmed as by Java's trim(), so " * " is the tag "*". cext/wire/subscription does the same for the
subscriptions in pulls.

Example: tag_codes("a || b") == [97, 98]; tag_codes("*") is None; tag_codes("||") raises ValueError;
tag_codes(" || ") == [], which no message passes.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from rmq.broker.json_members import bool_member, int_member, text_member
from rmq.format.message import java_hash

TAG = "TAG"
EVERYTHING = ("", "*")
BLANKS = "".join(map(chr, range(ord(" ") + 1)))  # those of trim(); strip() would remove others too
TAGS_MAX = 1024  # of one subscription, because the reactor keeps them in fixed space


class Subscription(msgspec.Struct, frozen=True):
    """Immutable; a newer version replaces it."""

    topic: str
    expression: str = "*"
    version: int = 0  # ms; grows when the client changes the subscription
    kind: str = TAG  # or SQL92
    class_filter: bool = False

    @property
    def is_tag(self) -> bool:
        return self.kind == TAG

    def codes(self) -> list[int] | None:
        """The tag codes by which the reactor filters; None: every message."""
        return tag_codes(self.expression)

    def members(self) -> dict[str, Any]:
        """A SubscriptionData object."""
        tags = tags_of(self.expression) if self.is_tag else []
        return {
            "classFilterMode": self.class_filter,
            "codeSet": sorted({java_hash(tag) for tag in tags}),
            "expressionType": self.kind,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": sorted(set(tags)),
            "topic": self.topic,
        }

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "Subscription":
        """Made from a SubscriptionData object; ProtocolError when a member has a wrong type."""
        return cls(
            topic=text_member(members, "topic"),
            expression=text_member(members, "subString", "*"),
            version=int_member(members, "subVersion", 0),
            kind=text_member(members, "expressionType", TAG) or TAG,
            class_filter=bool_member(members, "classFilterMode", False),
        )


def tags_of(expression: str) -> list[str]:
    """The tags of "a || b"; none when the expression means every message."""
    if expression in EVERYTHING:
        return []
    return [tag for part in expression.split("||") if (tag := part.strip(BLANKS))]


def tag_codes(expression: str) -> list[int] | None:
    """The tags' codes, each once; None: every message; ValueError when there are only
    separators."""
    if expression in EVERYTHING:
        return None
    if not any(expression.split("||")):
        raise ValueError(f"{expression[:200]!r} names no tag")
    tags = tags_of(expression)
    if len(tags) > TAGS_MAX:
        raise ValueError(f"{len(tags)} tags: at most {TAGS_MAX} are allowed")
    return sorted({java_hash(tag) for tag in tags})
