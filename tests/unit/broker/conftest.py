"""Fixtures: files are not synced, because no test of this folder has a power cut."""

from support.no_syncs import no_syncs

__all__ = ["no_syncs"]
