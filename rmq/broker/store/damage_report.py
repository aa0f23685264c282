"""Damage report: what recovery found damaged, as log lines with file and offset."""

import logging
from typing import Any

log = logging.getLogger("rmq.broker.damage_report")


def log_damage(report: dict[str, Any]) -> None:
    """One line for each damaged place of the commit log, and for each odd queue file."""
    for damage in report["damages"]:
        log.error(
            "%s:%d: damaged at log offset %d, %d bytes are not served: %s",
            damage["file"], damage["offset"], damage["log_offset"], damage["length"],
            damage["problem"],
        )  # fmt: skip
    more = report["damage_count"] - len(report["damages"])
    if more > 0:
        log.error("%d more damaged places; `rmq store check` names them all", more)
    if not report["own_checkpoint"] and report["row"] != "S1":  # a new store has none
        log.warning(
            "store: the file checkpoint holds nothing of rmq's that can be believed: it is damaged "
            "or missing, or Apache RocketMQ had the store; the log is read from %s on (row %s of "
            "recovery)", report["dispatch_from"], report["row"],
        )  # fmt: skip
    for note in report["notes"]:
        log.warning("store: %s", note)
