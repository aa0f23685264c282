"""Durations as counts in fixed buckets. See latency.pxd."""

from collections.abc import Iterable

def counts_for_tests(values: Iterable[int]) -> tuple[dict[int, int], int]: ...
