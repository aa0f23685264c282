"""Retry policy: after which delay level a message that failed is consumed again.

    groupRetryPolicy (5.x)       {"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[ms,..]}}
                                 {"type":"EXPONENTIAL","exponentialRetryPolicy":
                                   {"initial":ms,"max":ms,"multiplier":n}}

A group without a policy of its own retries at level 3, 4, 5 .., as RocketMQ does. A group with a
policy gets, for each delay of the policy, the shortest level that is not shorter than the delay,
else the longest level. Retry n (from 0) of a customized policy waits next[n + 2], as in RocketMQ,
whose default list is the 18 levels. A client that names a level itself gets that level.

Example: EXPONENTIAL, 5 s doubling, standard levels: 5s 10s 30s 1m 2m 3m 6m 20m 30m 1h 2h 2h ..
"""

from collections.abc import Mapping
from typing import Any

RETRIES_MAX = 32  # retries with a level of their own; cext/flow/tables/group_table.pxd
DELAY_MS_MAX = 10 * 365 * 86_400_000


def retry_levels(policy: Mapping[str, Any], delays_ms: list[int]) -> bytes:
    """The delay level of each retry, a byte each; empty: the group has no policy of its own."""
    kind = policy.get("type")
    if kind == "EXPONENTIAL":
        waits = _exponential(policy.get("exponentialRetryPolicy"))
    else:
        waits = _customized(policy.get("customizedRetryPolicy"))
    return bytes(_level(wait, delays_ms) for wait in waits)


def _exponential(policy: Any) -> list[int]:
    if not isinstance(policy, Mapping):
        return []
    initial = _whole(policy.get("initial"), 5_000)
    longest = _whole(policy.get("max"), 7_200_000)
    multiplier = _whole(policy.get("multiplier"), 2)
    return [min(longest, initial * multiplier**n) for n in range(RETRIES_MAX)]


def _customized(policy: Any) -> list[int]:
    waits = policy.get("next") if isinstance(policy, Mapping) else None
    if not isinstance(waits, list) or not waits:
        return []
    return [_whole(waits[min(n + 2, len(waits) - 1)], 0) for n in range(RETRIES_MAX)]


def _level(wait_ms: int, delays_ms: list[int]) -> int:
    enough = [(delay, level) for level, delay in enumerate(delays_ms, 1) if delay >= wait_ms]
    if enough:
        return min(enough)[1]
    return max((delay, level) for level, delay in enumerate(delays_ms, 1))[1]


def _whole(value: Any, otherwise: int) -> int:
    """A valid number, whatever the file or the wire has."""
    if isinstance(value, bool) or not isinstance(value, int):
        return otherwise
    return max(0, min(value, DELAY_MS_MAX))
