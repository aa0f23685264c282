"""What a crash now would leave of a table: its JSON file with the journal's changes."""

from pathlib import Path
from typing import Any

from rmq.base.json_file import JsonFile
from rmq.broker.tables.metadata_journal import MetadataJournal


def stored(directory: Path, name: str = "topics.json") -> dict[Any, Any]:
    """The content of config/`name` as the next start would read it."""
    config = directory / "config"
    content, _, _ = MetadataJournal(config).load(JsonFile(config / name))
    assert content is not None
    return content
