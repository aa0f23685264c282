"""Whether a store has a topic: by the names of its files if they say it, otherwise by its log."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from support.stored_records import record

pytest.importorskip("pyspark", reason="needs the extra: pip install -e .[spark]")

from rmq.arrow.options import OptionError
from rmq.arrow.store_topics import check_topics


class Part(NamedTuple):
    path: str
    segment_start: int
    segment_end: int
    start: int
    end: int


def log_of(root: Path, topic: bytes) -> Part:
    """A log of one message, which lies at 4096."""
    data = record(0, b"x", topic=topic)
    path = root / "commitlog" / f"{4096:020}"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return Part(str(path), 4096, 4096 + len(data), 4096, 4096 + len(data))


def unreadable(root: Path) -> Part:
    return Part(str(root / "commitlog" / "there is no such file"), 0, 1, 0, 1)


def test_a_store_that_names_its_topics_is_believed_without_its_log(tmp_path: Path) -> None:
    (tmp_path / "consumequeue" / "orders").mkdir(parents=True)
    (tmp_path / "config").mkdir()
    table = {"topicConfigTable": {"payments": {}}}
    (tmp_path / "config" / "topics.json").write_text(json.dumps(table))
    check_topics({"orders", "payments"}, [tmp_path], [unreadable(tmp_path)])
    with pytest.raises(OptionError, match=r"topic order is .* orders, payments; subscribePattern"):
        check_topics({"order"}, [tmp_path], [unreadable(tmp_path)])


@pytest.mark.parametrize("stale", [False, True])
def test_a_store_with_queues_in_rocksdb_does_not_name_its_topics(
    tmp_path: Path, stale: bool
) -> None:
    part = log_of(tmp_path, b"orders")
    (tmp_path / "consumequeue").mkdir()
    for name in ("CURRENT", "000012.sst"):
        (tmp_path / "consumequeue" / name).touch()
    if stale:
        (tmp_path / "config").mkdir()
        table = {"topicConfigTable": {"payments": {}}}
        (tmp_path / "config" / "topics.json").write_text(json.dumps(table))
    check_topics({"orders"}, [tmp_path], [part])
    with pytest.raises(OptionError, match="there are orders"):
        check_topics({"order"}, [tmp_path], [part])


def test_a_deleted_topic_of_the_systems_is_looked_for_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "consumequeue" / "orders").mkdir(parents=True)
    check_topics({"%DLQ%billing"}, [tmp_path], [log_of(tmp_path, b"%DLQ%billing")])


def test_a_bare_log_is_read_and_those_of_stores_that_name_topics_are_not(tmp_path: Path) -> None:
    told, bare = tmp_path / "told", tmp_path / "bare"
    (told / "consumequeue" / "orders").mkdir(parents=True)
    parts = [unreadable(told), log_of(bare, b"payments")]
    check_topics({"orders", "payments"}, [told, bare], parts)
    with pytest.raises(OptionError, match=r"topic payment is not .* orders, payments"):
        check_topics({"payment"}, [told, bare], parts)
