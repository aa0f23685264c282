"""JSON members: reads typed members of a JSON object that comes from a client or a file.

All functions raise ProtocolError, which names the member, when it is missing, of another type or
outside its limits.
"""

from typing import Any

from rmq.errors import ProtocolError


def text_member(members: Any, name: str, default: str | None = None) -> str:
    """A text in a JSON body; ProtocolError naming it when it is missing or of another type."""
    value = members.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ProtocolError(f"member {name} of the body is missing or not text")
    return value


def int_member(
    members: Any, name: str, default: int | None, low: int = -(2**63), high: int = 2**63 - 1
) -> int:
    """A whole number in a JSON body, as number or as text."""
    value = members.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProtocolError(f"member {name} of the body is missing or not a whole number")
    if not low <= value <= high:
        raise ProtocolError(f"member {name} of the body is {value}: outside {low}..{high}")
    return value


def bool_member(members: Any, name: str, default: bool) -> bool:
    """A truth value in a JSON body, as true/false or as text."""
    value = members.get(name)
    if value is None:
        return default
    if isinstance(value, str):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ProtocolError(f"member {name} of the body is not true or false")
    return value


def list_member(members: Any, name: str) -> list[Any]:
    """An array in a JSON body; a missing one is empty."""
    value = members.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ProtocolError(f"member {name} of the body is not an array")
    return value
