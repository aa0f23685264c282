"""Losses: the settings of rounds, and the rules that a lost message breaks if they are weaker.

    run(1, "trio", "behind", "master", seed, folder, seconds, settings="weak").lost     # 17

`safe` are rmq's defaults, with which rounds lose nothing. `durable` loses nothing by a power cut of
all brokers either, which the defaults need not survive. `weak` are Apache's defaults in controller
mode (docs/replicas.md, "What each setting risks"): the master answers alone, so messages that it
did not copy in time are lost with it. Then these consequences are no failure: a message that was
acknowledged or delivered is gone, its place has another message, and groups that had passed it are
sent back. An acknowledgement is dated by what is at its place in the log now, so one of the old
master seems to be of the next epoch. All other rules hold with any settings.
"""

from __future__ import annotations

SETTINGS: dict[str, tuple[str, ...]] = {
    "safe": (),
    "durable": ("flushDiskType=SYNC_FLUSH",),
    "weak": ("allAckInSyncStateSet=false", "minInSyncReplicas=1"),
}
WEAKER = {"weak"}
FAULTS_TOO_MUCH = {"safe": {"power-cut"}}  # settings -> faults that they need not survive

OF_LOSSES = {
    "lost", "moved", "two-messages", "vanished", "overtaken", "undelivered", "reader-order",
    "group-order", "key-order", "offset-fell", "reset-lost", "offset-unknown", "not-copied",
    "two-ackers", "stale-acker", "epoch-overlap", "behind-member",
    "topic-lost", "topic-back",
}  # fmt: skip
