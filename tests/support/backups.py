"""Backups: `rmq store backup|restore` as users call them, on stores that are made byte by byte.

back_up(image, copy)["copied_bytes"]
text = refused("restore", "--from", copy, "--store", new)
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.store_image import StoreImage

from rmq.base.json_file import JsonFile
from rmq.cli.main import cli


@pytest.fixture
def image(tmp_path: Path) -> StoreImage:
    """A store of 600 records in 6 segments, with some configuration."""
    made = StoreImage(tmp_path / "store").add_many(600)
    made.write_log().write_queues().checkpoint_at(600, queue_count=6)
    JsonFile(made.root / "config" / "topics.json").save({"topicConfigTable": {"topic-0": {}}})
    return made


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["store", *map(str, words)])


def back_up(image: StoreImage, copy: Path, *words: object) -> dict:
    """Runs the backup; returns what the command reports about the only store."""
    result = run("backup", "--store", image.root, "--to", copy, "--json", *words)
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.output)["stores"][0]


def refused(*words: object) -> str:
    result = run(*words)
    assert result.exception is not None and result.exit_code == 1, result.output
    return str(result.exception)


def segments(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((directory / "commitlog").iterdir())}
