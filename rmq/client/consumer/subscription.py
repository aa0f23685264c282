"""Subscription: which messages of a topic a consumer gets.

    Subscription.of("orders", "paid || sent")          # tags; "*" is everything
    Subscription.of("orders", sql="amount > 100")      # SQL92 over the properties

Values and rules only; no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cext.client.message import MessageExt
from rmq.base import clock
from rmq.errors import ConfigError
from rmq.format.message import java_hash

EVERYTHING = "*"
TAG, SQL92 = "TAG", "SQL92"


@dataclass(frozen=True)
class Subscription:
    """One topic (its name on the wire), and which of its messages are wanted."""

    topic: str
    text: str
    kind: str
    tags: frozenset[str]  # empty: all tags, or SQL
    version: int  # ms; a newer one replaces an older one at the broker

    @classmethod
    def of(cls, topic: str, tags: str | None = None, sql: str | None = None) -> Subscription:
        """The subscription by tags or by SQL. ConfigError: both are given, or one is empty."""
        version = clock.now_ms()
        if sql is not None:
            if tags not in (None, EVERYTHING):
                raise ConfigError(f"a subscription of {topic} is by tags or by SQL, not by both")
            if not sql.strip():
                raise ConfigError(f"an empty SQL expression for {topic}")
            return cls(topic, sql, SQL92, frozenset(), version)
        text = tags or EVERYTHING
        if not isinstance(text, str):
            raise ConfigError(f"tags of {topic} are text such as 'a || b', not {text!r}")
        if text == EVERYTHING:
            return cls(topic, EVERYTHING, TAG, frozenset(), version)
        found = frozenset(part.strip() for part in text.split("||") if part.strip())
        if not found:
            raise ConfigError(f"no tag in {text!r}")
        return cls(topic, text, TAG, found, version)

    def members(self) -> dict[str, Any]:
        """The fields of SubscriptionData in a heartbeat."""
        tags = sorted(self.tags)
        return {
            "topic": self.topic, "subString": self.text, "tagsSet": tags,
            "codeSet": [java_hash(each) for each in tags], "subVersion": self.version,
            "expressionType": self.kind, "classFilterMode": False,
        }  # fmt: skip

    def wanted(self, messages: list[MessageExt]) -> list[MessageExt]:
        """The messages whose tags are wanted. Brokers compare only the hashes of tags, so the tags
        themselves are compared here."""
        if not self.tags:
            return messages
        tags = self.tags
        return [each for each in messages if each.tags in tags]
