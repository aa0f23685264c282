"""Fixtures: a shard with one topic and one group, in this process."""

from support.shard import shard

__all__ = ["shard"]
