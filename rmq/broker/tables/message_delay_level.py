"""Message delay level: how long a message of each level waits, as messageDelayLevel says it.

    "1s 5s 10s 30s 1m .."        level 1 first; s, m, h or d; at most 18

A message with DELAY=3 waits as long as level 3 says. A message that a group could not consume comes
again at a level that its retry policy chooses (retry_policy.py). delay_levels.py knows how far each
level is delivered.

Example: parse_levels("1s 5m") is [1000, 300000].
"""

from rmq.errors import ConfigError
from rmq.limits import DELAY_LEVELS_MAX

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_levels(text: str) -> list[int]:
    """Milliseconds of each level of "1s 5s 10s"; ConfigError names a part that is no delay."""
    levels = []
    for part in text.split():
        number, unit = part[:-1], part[-1:]
        if not number.isdecimal() or unit not in _UNIT_MS:
            raise ConfigError(f"messageDelayLevel: {part!r} is not a number with s, m, h or d")
        levels.append(int(number) * _UNIT_MS[unit])
    if not 0 < len(levels) <= DELAY_LEVELS_MAX:
        raise ConfigError(f"messageDelayLevel: 1 to {DELAY_LEVELS_MAX} levels, not {len(levels)}")
    return levels
