"""Queue mappings: those of static topics, as mqadmin sends them (513)."""

from __future__ import annotations

from typing import Any

from rmq.format import fastjson

FAR = 10_000


def item(gen: int, broker: str, queue: int, base: int, end: int = -1) -> dict[str, Any]:
    return {"gen": gen, "queueId": queue, "bname": broker, "logicOffset": base, "startOffset": 0,
            "endOffset": end, "timeOfStart": -1, "timeOfEnd": -1}  # fmt: skip


def detail(broker: str, queues: dict[int, list[dict[str, Any]]], total: int, epoch: int) -> bytes:
    return fastjson.dumps(
        {"topic": "s", "bname": broker, "scope": "__global__", "totalQueues": total,
         "epoch": epoch, "dirty": False, "hostedQueues": queues, "currIdMap": {}}
    )  # fmt: skip
