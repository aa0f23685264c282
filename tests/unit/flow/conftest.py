"""Fixtures: a shard with one topic and one group, in this process. Files are not synced, because no
test of this folder has a power cut."""

from support.no_syncs import no_syncs
from support.shard import shard

__all__ = ["no_syncs", "shard"]
