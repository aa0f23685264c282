"""Stored table: what a crash now would leave of a table, JSON file and journal together."""

from pathlib import Path
from typing import Any

from rmq.base.journal_file import METADATA_NAME, OFFSETS_NAME
from rmq.base.json_file import JsonFile
from rmq.broker.tables.metadata_journal import MetadataJournal

OFFSETS = "consumerOffset.json"


def stored(directory: Path, name: str = "topics.json") -> dict[Any, Any]:
    """The content of config/`name` as the next start would read it; {} if there is none."""
    config = directory / "config"
    journal = MetadataJournal(config, OFFSETS_NAME if name == OFFSETS else METADATA_NAME)
    content, _, _ = journal.load(JsonFile(config / name))
    return content or {}


def stored_offsets(directory: Path) -> dict[str, dict[str, int]]:
    """{"topic@group": {"queue id": offset}}"""
    table: dict[str, dict[str, int]] = stored(directory, OFFSETS).get("offsetTable", {})
    return table
