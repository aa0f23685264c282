"""Broadcasting: each member gets every message, and keeps its place in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.consuming import Kept, consumer_of, create, numbers, once_each, send, wait_for_rest
from support.waiting import wait_until

from rmq import ConsumeConcurrentlyStatus
from rmq.client.consumer.offset_stores import LocalOffsets
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.pytest_plugin import RunningBroker

QUEUE = MessageQueue("t", "b", 0)
LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {"message_model": "BROADCASTING", "local_offset_store_dir": str(folder), **more}


def test_every_member_gets_everything(broker: RunningBroker, tmp_path: Path) -> None:
    address = broker.namesrv_addr
    queues = create(address, "cast-all", 3)
    one, two = Kept(), Kept()
    with (
        consumer_of(address, "cast-all", one, **settings(tmp_path / "1")) as first,
        consumer_of(address, "cast-all", two, **settings(tmp_path / "2")) as second,
    ):
        first.subscribe("cast-all")
        second.subscribe("cast-all")
        send(address, numbers("cast-all", 0, 300))
        for kept in (one, two):
            kept.wait(300)
        wait_for_rest(address, first, second)
        assert once_each(one.bodies, 0, 300)
        assert once_each(two.bodies, 0, 300)
        assert first.assignment() == second.assignment() == queues


def test_it_goes_on_where_the_file_says(broker: RunningBroker, tmp_path: Path) -> None:
    address = broker.namesrv_addr
    create(address, "cast-file", 2)
    for begin, end in ((0, 10), (10, 25)):
        send(address, numbers("cast-file", begin, end))
        kept = Kept()
        with consumer_of(address, "cast-file", kept, **settings(tmp_path)) as consumer:
            consumer.subscribe("cast-file")
            assert sorted(kept.wait(end - begin)) == list(range(begin, end))
            wait_for_rest(address, consumer)
            assert len(kept.messages) == end - begin
    (path,) = tmp_path.rglob("offsets.json")
    assert path.parent.name == "cast-file"
    assert path.parent.parent.name.endswith("@DEFAULT")
    table = fastjson.loads_object(path.read_bytes())["offsetTable"]
    assert sum(table.values()) == 25


def test_what_fails_is_dropped(broker: RunningBroker, tmp_path: Path) -> None:
    address = broker.namesrv_addr
    create(address, "cast-fail", 1)
    send(address, numbers("cast-fail", 0, 5))
    kept = Kept(lambda messages, context: LATER)
    with consumer_of(address, "cast-fail", kept, **settings(tmp_path)) as consumer:
        consumer.subscribe("cast-fail")
        kept.wait(5)
        wait_until(lambda: sum(each.count for each in consumer._client.process_queues()) == 0)
        assert [each.wire.topic for each in consumer._client.process_queues()] == ["cast-fail"]
    assert once_each(kept.bodies, 0, 5)


def test_orderly_members_need_no_locks(broker: RunningBroker, tmp_path: Path) -> None:
    address = broker.namesrv_addr
    create(address, "cast-order", 1)
    send(address, numbers("cast-order", 0, 20))
    one, two = Kept(), Kept()
    with (
        consumer_of(address, "cast-order", one, consume_orderly=True,
                    **settings(tmp_path / "1")) as first,
        consumer_of(address, "cast-order", two, consume_orderly=True,
                    **settings(tmp_path / "2")) as second,
    ):  # fmt: skip
        first.subscribe("cast-order")
        second.subscribe("cast-order")
        assert one.wait(20) == two.wait(20) == list(range(20))


def test_a_damaged_file_is_replaced_by_the_one_before(tmp_path: Path) -> None:
    store = LocalOffsets.of(str(tmp_path), "client", "group")
    store.load()
    assert store.read(QUEUE) is None
    store.persist({QUEUE: 5}, wait=True)
    store.persist({QUEUE: 7}, wait=True)
    again = LocalOffsets(store.path)
    again.load()
    assert again.read(QUEUE) == 7
    store.path.write_bytes(b'{"offsetTable":{{"bro')
    again.load()
    assert again.read(QUEUE) == 5
    assert sorted(each.name for each in store.path.parent.iterdir()) == [
        "offsets.json", "offsets.json.bak",
    ]  # fmt: skip


def test_queues_of_another_process_stay_in_the_file(tmp_path: Path) -> None:
    one, two = (LocalOffsets(tmp_path / "offsets.json") for _ in range(2))
    one.load()
    two.load()
    other = QUEUE._replace(queue_id=1)
    one.persist({QUEUE: 5}, wait=True)
    two.persist({other: 6}, wait=True)
    one.load()
    assert (one.read(QUEUE), one.read(other)) == (5, 6)
    two.persist({QUEUE: 8}, wait=True)
    one.persist({other: 9}, wait=True)
    found = LocalOffsets(tmp_path / "offsets.json")
    found.load()
    assert (found.read(QUEUE), found.read(other)) == (8, 9)


def test_a_folder_that_cannot_be_written_is_no_end(tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "file").write_text("")
    store = LocalOffsets(tmp_path / "file" / "g" / "offsets.json")
    store.persist({QUEUE: 5}, wait=True)
    assert "offsets are not kept" in caplog.text
