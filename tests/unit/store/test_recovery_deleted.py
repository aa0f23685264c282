"""Recovery of a store whose topic was deleted, and perhaps made again (row Q11).

Goal: messages from before the deletion are in no queue, those stored since then are all there,
whatever start recovery chooses. Method: as in test_recovery.py.
"""

import shutil

import pytest
from support.store_image import StoreImage, open_store

from cext.testing.store_probe import queues_flush, queues_snapshot

OTHER_BOOT = {"boot_id": bytes(range(16))}


@pytest.fixture
def image(tmp_path):
    return StoreImage(tmp_path)


def fill(image, count=300):
    """Adds records of T and of others in turn; returns when and where T is deleted after that."""
    for number in range(count):
        image.add(b"T" if number % 2 else b"others", number // 2 % 2, b"older")
    return {b"T": (image.end, image.now - 10)}


def lived(image, deleted):
    return [
        r
        for r in image.records
        if r.topic not in deleted
        or r.offset >= deleted[r.topic][0]
        or r.store_ms > deleted[r.topic][1]
    ]


def forget_queues(image):
    shutil.rmtree(image.queue_directory / "T", ignore_errors=True)


WAYS = {
    "killed, queueEnds of before": lambda image, n: image.write_ends(n - 50),
    "killed, queueEnds of the deletion": lambda image, n: image.write_ends(n),
    "power cut": lambda image, n: image.write_ends(n // 2, name="queueEnds.synced", **OTHER_BOOT),
    "checkpoint alone": lambda image, n: image.checkpoint_at(n, queue_count=2),
    "checkpoint of a power cut": lambda image, n: image.checkpoint_at(n, n // 2, **OTHER_BOOT),
    "nothing": lambda image, n: None,
    "no queue files": lambda image, n: shutil.rmtree(image.queue_directory),
}


@pytest.mark.parametrize("files", ["gone", "still there"])
@pytest.mark.parametrize("made_anew", [0, 7, 150])
@pytest.mark.parametrize("way", WAYS)
def test_q11_a_deleted_topics_messages_stay_away(image, way, made_anew, files):
    deleted = fill(image)
    count = len(image.records)
    image.write_log().write_queues()
    WAYS[way](image, count)
    if files == "gone":
        forget_queues(image)
    image.next = {name: n for name, n in image.next.items() if name[0] != b"T"}
    for number in range(made_anew):
        image.add(b"T" if number % 3 else b"others", 0, b"newer")
    image.write_log()
    _log, queues, report = open_store(image.root, deleted=deleted)
    image.check(queues, lived(image, deleted))
    queues_flush(queues, 5_000, 0)
    _log, queues, report = open_store(image.root, clean=True, deleted=deleted)
    assert (report["row"], report["queues_rebuilt"]) == ("S4", 0), report
    image.check(queues, lived(image, deleted))
    if not made_anew:
        assert all(high == 0 for name, q in queues.queue_names() if name == b"T"
                   for _low, high, *_ in [queues_snapshot(queues, name, q)])  # fmt: skip


def test_q11_a_queue_that_is_made_from_the_whole_log_has_only_what_was_stored_since(image):
    deleted = fill(image)
    image.next.clear()
    for number in range(120):
        image.add(b"T", 0, b"%d" % number)
    records = lived(image, deleted)
    image.write_log().write_queues(records)
    kept, image.records = image.records, records
    image.write_ends(len(records))
    image.records = kept
    for path in (image.queue_directory / "T" / "0").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    _log, queues, report = open_store(image.root, clean=True, deleted=deleted)
    assert report["queues_rebuilt"] == 1, report
    image.check(queues, records)


def test_q11_what_is_newer_than_the_deletion_counts_whatever_its_offset(image):
    """A power cut took the end of the log with the offset of the deletion; only the file still has
    it."""
    fill(image, 40)
    deleted = {b"T": (image.end * 2, image.now - 10), b"gone": (1 << 60, 1 << 60)}
    image.next = {name: n for name, n in image.next.items() if name[0] != b"T"}
    for _ in range(60):
        image.add(b"T", 0, b"newer")
    image.write_log()
    _log, queues, _report = open_store(image.root, deleted=deleted)
    image.check(queues, lived(image, deleted))
    assert queues_snapshot(queues, b"T", 0)[:2] == (0, 60)
