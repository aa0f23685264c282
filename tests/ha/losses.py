"""Losses: the settings of rounds, and the rules that a lost message breaks where they are weaker.

    run(1, "trio", "behind", "master", seed, folder, seconds, settings="weak").lost     # 17

`safe` are our defaults: in rounds with them nothing is lost, nor with `durable` by a power cut of
all, which the defaults are not to survive. `weak` are Apache's of controller mode
(docs/operations.md, "What each setting risks"): the master alone answers, so what it did not copy
in time is gone with it. What then follows is no failure: a message that was acknowledged or
delivered is gone, its place has another one, and groups that had passed it are sent back. An
acknowledgement is dated by what is at its place in the log now, so the old master's seems to be one
of the next epoch. All other rules hold with any settings.
"""

from __future__ import annotations

SETTINGS: dict[str, tuple[str, ...]] = {
    "safe": (),
    "durable": ("flushDiskType=SYNC_FLUSH",),
    "weak": ("allAckInSyncStateSet=false", "minInSyncReplicas=1"),
}
WEAKER = {"weak"}
FAULTS_TOO_MUCH = {"safe": {"power-cut"}}  # by the settings

OF_LOSSES = {
    "lost", "moved", "two-messages", "vanished", "overtaken", "undelivered", "reader-order",
    "group-order", "key-order", "offset-fell", "offset-unknown", "not-copied",
    "two-ackers", "stale-acker", "epoch-overlap",
}  # fmt: skip
