"""SQL model: Apache's rules for evaluating SQL92 filters in plain Python, over the parser's tree.

    evaluate(parse("a > 5"), {"a": "7"})       True, False, None (null) or FAILED

It is written from the behaviour of Apache's evaluator, not from the compiled one of rmq. The
compatibility tests compare both with Apache's own.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Any

from rmq.filters.tree import (
    BOOL,
    DOUBLE,
    INT,
    LONG,
    NULL,
    Both,
    Cast,
    Compare,
    Constant,
    Equal,
    In,
    Negate,
    Node,
    Not,
    Property,
    Search,
)

FAILED = "failed"
TEXT = "text"
RANGES = {INT: 31, LONG: 63}
_HEX = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")


class Failed(Exception):
    """Raised where Java's evaluator throws."""


def java_integer(text: str, bits: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or not all(c.isdecimal() and ord(c) < 0x10000 for c in digits):
        raise Failed
    value = int(digits) * (-1 if text[0] == "-" else 1)
    if not -(2**bits) <= value < 2**bits:
        raise Failed
    return value


def java_double(text: str) -> float:
    text = text.strip("".join(map(chr, range(33))))
    if re.fullmatch("[+-]?NaN", text):
        return math.nan
    if re.fullmatch("[+-]?Infinity", text):
        return -math.inf if text[0] == "-" else math.inf
    if _HEX.fullmatch(text):
        try:
            return float.fromhex(text.rstrip("fFdD") if text[-1] in "fFdD" else text)
        except OverflowError:
            return -math.inf if text[0] == "-" else math.inf
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    raise Failed


def order(a: Any, b: Any) -> int:
    """Java's compareTo for two values of one kind."""
    if isinstance(a, float):
        if math.isnan(a) or math.isnan(b):
            return int(math.isnan(a)) - int(math.isnan(b))
        if a == b == 0:
            return int(math.copysign(1, a) - math.copysign(1, b))
    return int(a > b) - int(a < b)


def compare(left: tuple[Any, Any], right: tuple[Any, Any]) -> int:
    (kind, a), (other, b) = left, right
    if kind == other:
        return order(a, b)
    if kind == BOOL:
        if other == TEXT:
            raise Failed  # Java casts a boolean to a string, which throws
        return -1
    if kind == TEXT:
        if other == BOOL:
            return order(a.lower() == "true", b)
        return order(number(a, other), b)
    if other == TEXT:
        return order(a, number(b, kind))
    if other == BOOL:
        return -1
    return order(float(a), float(b)) if DOUBLE in (kind, other) else order(a, b)


def number(text: str, kind: int) -> Any:
    return java_double(text) if kind == DOUBLE else java_integer(text, RANGES[kind])


def evaluate(node: Node, properties: Mapping[str, str]) -> Any:
    try:
        kind, value = _value(node, properties)
    except Failed:
        return FAILED
    return None if kind == NULL else value


def _value(node: Node, properties: Mapping[str, str]) -> tuple[Any, Any]:
    """(kind, value)"""
    if isinstance(node, Constant):
        return (TEXT if isinstance(node.value, str) else node.kind), node.value
    if isinstance(node, Property):
        text = properties.get(node.name)
        return (NULL, None) if text is None else (TEXT, text)
    if isinstance(node, Both):
        return _both(node, properties)
    if isinstance(node, Equal):
        return _equal(_value(node.left, properties), _value(node.right, properties))
    if isinstance(node, Compare):
        return _ordered(node, properties)
    kind, value = _value(node.inner, properties)
    if isinstance(node, Search):
        return BOOL, _found(node, kind, value)
    if kind == NULL:
        return NULL, None
    if isinstance(node, In):
        return BOOL, (value in node.texts) != node.negated
    if isinstance(node, Not):
        return BOOL, not value
    if isinstance(node, Cast):
        return BOOL, False
    assert isinstance(node, Negate)
    return (kind, -value) if kind in (INT, LONG, DOUBLE) else (NULL, None)


def _both(node: Both, properties: Mapping[str, str]) -> tuple[Any, Any]:
    decisive = node.word == "OR"
    left = _value(node.left, properties)
    if left == (BOOL, decisive):
        return left
    right = _value(node.right, properties)
    if right == (BOOL, decisive):
        return right
    return (NULL, None) if NULL in (left[0], right[0]) else (BOOL, not decisive)


def _equal(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
    if left[0] == NULL or right[0] == NULL:
        if left[0] == right[0]:
            return BOOL, True
        return (NULL, None) if left[0] == NULL else (BOOL, False)
    return BOOL, compare(left, right) == 0


def _ordered(node: Compare, properties: Mapping[str, str]) -> tuple[Any, Any]:
    left = _value(node.left, properties)
    if left[0] == NULL:
        return NULL, None
    right = _value(node.right, properties)
    if right[0] == NULL:
        return NULL, None
    if left[0] == right[0] == TEXT:
        way = order(java_double(left[1]), java_double(right[1]))
    else:
        way = compare(left, right)
    return BOOL, {">": way > 0, ">=": way >= 0, "<": way < 0, "<=": way <= 0}[node.sign]


def _found(node: Search, kind: Any, value: Any) -> bool:
    if kind != TEXT or not node.text:
        return False
    found = {
        "CONTAINS": node.text in value,
        "STARTSWITH": value.startswith(node.text),
        "ENDSWITH": value.endswith(node.text),
    }[node.word]
    return found != node.negated


def stored(properties: Mapping[str, str]) -> bytes:
    """The property string of a record with these properties."""
    return b"".join(
        name.encode() + b"\x01" + value.encode() + b"\x02" for name, value in properties.items()
    )


def bits(value: float) -> bytes:
    """The bits of a number: comparing them, NaN equals itself and 0.0 differs from -0.0."""
    return struct.pack(">d", value) if not math.isnan(value) else b"NaN"
