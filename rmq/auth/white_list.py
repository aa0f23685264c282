"""White list: addresses that RocketMQ's ACL 1.0 lets in without an account, or without a signature.

    *                      everybody; also *.*.*.*
    10.10.103.*            any last part; also 10.10.*.*
    10.10.103.1-20         a range in a part
    10.10.103.{4,5}        one of these numbers
    10.0.0.1,10.0.0.2      one of these addresses
    fd00:1:*               the same in IPv6, where each part is a hexadecimal number

Example: WhiteList.of("10.10.103.*").covers(address("10.10.103.7")) is true.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, ip_address

import msgspec

from rmq.base.networks import Address
from rmq.errors import ProtocolError

Part = tuple[tuple[int, int], ...]  # (first, last) of ranges; an address's part must be in one

_V4, _V6 = (4, 10, 255), (8, 16, 0xFFFF)  # (number of parts, base of the numbers, highest one)
_LIST = re.compile(r",(?![^{]*\})")  # commas outside of braces


class WhiteList(msgspec.Struct, frozen=True):
    patterns: tuple[tuple[Part, ...], ...]  # 4 parts of IPv4, 8 of IPv6
    everybody: bool = False

    @classmethod
    def of(cls, text: str) -> WhiteList:
        """Reads a list; an empty text covers nobody. ProtocolError: it has an invalid pattern."""
        texts = [each.strip() for each in _LIST.split(text) if each.strip()]
        if any(each in ("*", "*.*.*.*", "*:*:*:*:*:*:*:*") for each in texts):
            return cls((), everybody=True)
        return cls(tuple(_pattern(each) for each in texts))

    def covers(self, source: Address | None) -> bool:
        if source is None or self.everybody:
            return self.everybody
        numbers = _numbers(source)
        return any(
            len(pattern) == len(numbers)
            and all(
                any(low <= number <= high for low, high in part)
                for part, number in zip(pattern, numbers, strict=True)
            )
            for pattern in self.patterns
        )


def _pattern(text: str) -> tuple[Part, ...]:
    count, base, highest = _V6 if ":" in text else _V4
    if "*" not in text and "{" not in text and "-" not in text:
        return _exact(text)
    parts = text.split(":" if base == 16 else ".")
    if parts[-1] == "*":
        parts += ["*"] * (count - len(parts))
    if len(parts) != count:
        raise ProtocolError(f"no address pattern: {text[:100]!r}")
    return tuple(_part(each, base, highest, text) for each in parts)


def _exact(text: str) -> tuple[Part, ...]:
    try:
        found = ip_address(text)
    except ValueError:
        raise ProtocolError(f"no address pattern: {text[:100]!r}") from None
    return tuple(((number, number),) for number in _numbers(found))


def _numbers(address: Address) -> list[int]:
    """Its parts."""
    size = 1 if isinstance(address, IPv4Address) else 2
    packed = address.packed
    return [int.from_bytes(packed[at : at + size], "big") for at in range(0, len(packed), size)]


def _part(text: str, base: int, highest: int, whole: str) -> Part:
    if text == "*":
        return ((0, highest),)
    choices = text[1:-1].split(",") if text.startswith("{") and text.endswith("}") else [text]
    return tuple(_range(each.strip(), base, highest, whole) for each in choices)


def _range(text: str, base: int, highest: int, whole: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    try:
        ends = int(low, base), int(high or low, base)
    except ValueError:
        raise ProtocolError(f"no address pattern: {whole[:100]!r}") from None
    if not 0 <= ends[0] <= ends[1] <= highest:
        raise ProtocolError(f"no address pattern: {whole[:100]!r}")
    return ends
