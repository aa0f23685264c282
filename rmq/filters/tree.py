"""Tree of an SQL92 filter expression, and where RocketMQ allows which nodes.

    price > 5 AND kind IN ('a', 'b')
        Both(And, Compare(">", Property("price"), Constant(5, INT)), In(Property("kind"), ..))

Constants have Java's types. The type decides how a property, which is always a string, is read when
it is compared: with 5 as an int, with 5000000000 as a long, with 5.0 as a double.
"""

from typing import TypeAlias

import msgspec

NULL, BOOL, INT, LONG, DOUBLE, TEXT = range(6)


class Constant(msgspec.Struct, frozen=True):
    value: bool | int | float | str | None
    kind: int


class Property(msgspec.Struct, frozen=True):
    name: str


class Negate(msgspec.Struct, frozen=True):
    inner: "Node"


class Not(msgspec.Struct, frozen=True):
    inner: "Node"


class Cast(msgspec.Struct, frozen=True):
    """A property in the place of a truth value. It is never true, as properties are strings."""

    inner: Property


class Equal(msgspec.Struct, frozen=True):
    left: "Node"
    right: "Node"


class Compare(msgspec.Struct, frozen=True):
    sign: str  # > >= < <=
    left: "Node"
    right: "Node"


class Search(msgspec.Struct, frozen=True):
    """CONTAINS, STARTSWITH, ENDSWITH."""

    word: str
    negated: bool
    inner: "Node"
    text: str


class In(msgspec.Struct, frozen=True):
    inner: Property
    texts: tuple[str, ...]
    negated: bool


class Both(msgspec.Struct, frozen=True):
    """AND or OR."""

    word: str
    left: "Node"
    right: "Node"


Node: TypeAlias = Constant | Property | Negate | Not | Cast | Equal | Compare | Search | In | Both


def is_truth(node: Node) -> bool:
    """Whether the node's form shows that its value is true, false or null."""
    if isinstance(node, Constant):
        return node.kind in (NULL, BOOL)
    return not isinstance(node, Property | Negate)
