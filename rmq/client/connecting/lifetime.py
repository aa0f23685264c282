"""Clients start once and close once: what is said of one that is used before or after.

raise not_open("consumer", is_closed=True)         # ClosedError: the consumer is closed
shown(self, self.group, is_open=True, is_closed=False)     # "<Producer of group orders, open>"
"""

from __future__ import annotations

from rmq.errors import ClosedError


def not_open(what: str, *, is_closed: bool) -> ClosedError:
    if is_closed:
        return ClosedError(f"the {what} is closed")
    return ClosedError(f"the {what} is not started: call start(), or open it by `with`")


def shown(client: object, group: str, *, is_open: bool, is_closed: bool) -> str:
    """What repr() says of it."""
    state = "closed" if is_closed else "open" if is_open else "not started"
    return f"<{type(client).__name__} of group {group}, {state}>"
