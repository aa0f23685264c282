"""Tree: of an SQL92 filter expression, and which nodes RocketMQ lets stand where.

    price > 5 AND kind IN ('a', 'b')
        Both(And, Compare(">", Property("price"), Constant(5, INT)), In(Property("kind"), ..))

Constants carry Java's type, since it decides how a property, always a string, is read for a
comparison: with 5 as an int, with 5000000000 as a long, with 5.0 as a double.
"""

from dataclasses import dataclass
from typing import TypeAlias

NULL, BOOL, INT, LONG, DOUBLE, TEXT = range(6)


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool | int | float | str | None
    kind: int


@dataclass(frozen=True, slots=True)
class Property:
    name: str


@dataclass(frozen=True, slots=True)
class Negate:
    inner: "Node"


@dataclass(frozen=True, slots=True)
class Not:
    inner: "Node"


@dataclass(frozen=True, slots=True)
class Cast:
    """A property where a truth value is needed: never true, as properties are strings."""

    inner: Property


@dataclass(frozen=True, slots=True)
class Equal:
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Compare:
    sign: str  # > >= < <=
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Search:
    """CONTAINS, STARTSWITH, ENDSWITH."""

    word: str
    negated: bool
    inner: "Node"
    text: str


@dataclass(frozen=True, slots=True)
class In:
    inner: Property
    texts: tuple[str, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Both:
    """AND or OR."""

    word: str
    left: "Node"
    right: "Node"


Node: TypeAlias = Constant | Property | Negate | Not | Cast | Equal | Compare | Search | In | Both


def is_truth(node: Node) -> bool:
    """Whether the node's value is true, false or null by its form."""
    if isinstance(node, Constant):
        return node.kind in (NULL, BOOL)
    return not isinstance(node, Property | Negate)
