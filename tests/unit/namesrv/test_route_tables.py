"""Goal: brokers come, stay and go by RocketMQ's rules.

Method: registrations are handed to the tables directly, with a clock that the test moves. Not shown
here: that connections report their end; test_connections.py does.
"""

from typing import Any

import pytest

from rmq.namesrv.registration import DataVersion, Registration, TopicConfig
from rmq.namesrv.route_tables import RouteTables
from rmq.namesrv.topic_queues import QueueData


class Clock:
    now_ms = 1_000_000.0

    def __call__(self) -> float:
        return self.now_ms


def said(name: str = "a", address: str = "h1:1", **changes: Any) -> Registration:
    topics = changes.pop("topics", {"T": {}, "TBW102": {"perm": 7}})
    version = changes.pop("version", 1)
    parts: dict[str, Any] = {
        "cluster": "C",
        "broker_name": name,
        "broker_id": 0,
        "address": address,
        "ha_address": address + "0",
        "zone": None,
        "heartbeat_timeout_ms": None,
        "enable_acting_master": None,
        "data_version": DataVersion(version, 0, version),
        "topics": {t: TopicConfig(topicName=t, **config) for t, config in topics.items()},
        "queue_maps": {},
        "filter_servers": None,
    }
    return Registration(**{**parts, **changes})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tables(clock: Clock) -> RouteTables:
    return RouteTables(clock)


def row(tables: RouteTables, topic: str, name: str = "a") -> QueueData:
    return tables.topics.rows(topic)[name]


def test_a_master_registers_with_its_topics(tables: RouteTables) -> None:
    accepted = tables.register(said(), "connection")
    assert accepted is not None
    assert (accepted.master_address, accepted.ha_address) == ("", "")
    assert tables.topics.topics() == ["T", "TBW102"]
    assert row(tables, "TBW102") == QueueData("a", 7, 16, 0, 16)
    assert tables.clusters == {"C": {"a"}}


def test_a_first_registration_with_one_topic_is_refused_and_leaves_no_trace(
    tables: RouteTables,
) -> None:
    assert tables.register(said(topics={"T": {}}), None) is None
    assert not tables.brokers and not tables.clusters and not tables.live
    assert tables.register(said(topics={}), None) is not None
    assert tables.register(said(topics={"T": {}}, version=2), None) is not None
    assert tables.topics.topics() == ["T"]


def test_the_same_data_version_changes_nothing_and_a_new_one_does(tables: RouteTables) -> None:
    tables.register(said(), None)
    tables.topics.change_write_permission("a", False)
    tables.register(said(), None)
    assert row(tables, "T").perm == 4
    tables.register(said(version=2), None)
    assert row(tables, "T").perm == 6


def test_a_topic_deleted_by_hand_comes_back_with_the_next_registration(tables: RouteTables) -> None:
    tables.register(said(), None)
    tables.remove_topic("T", None)
    assert tables.topics.topics() == ["TBW102"]
    tables.register(said(), None)
    assert tables.topics.topics() == ["T", "TBW102"]


def test_topics_a_broker_no_longer_lists_stay_unless_told_otherwise(tables: RouteTables) -> None:
    tables.register(said(topics={"T": {}, "U": {}}), None)
    tables.register(said(topics={"T": {}, "V": {}}, version=2), None)
    assert tables.topics.topics() == ["T", "U", "V"]
    tables.register(said(topics={"T": {}, "V": {}}, version=3), None, forget_unlisted_topics=True)
    assert tables.topics.topics() == ["T", "V"]


def test_a_slave_learns_its_master_and_describes_no_topics(tables: RouteTables) -> None:
    tables.register(said(), None)
    slave = said(address="h2:1", broker_id=1, topics={"T": {"perm": 2}, "X": {}}, version=9)
    accepted = tables.register(slave, None)
    assert accepted is not None
    assert (accepted.master_address, accepted.ha_address) == ("h1:1", "h1:10")
    assert tables.topics.topics() == ["T", "TBW102"]
    assert tables.brokers["a"].addresses == {0: "h1:1", 1: "h2:1"}


def test_without_a_master_the_first_slave_describes_topics_nobody_may_write_to(
    tables: RouteTables,
) -> None:
    tables.register(said(broker_id=2, enable_acting_master=True), None)
    assert row(tables, "TBW102").perm == 5
    tables.register(said(address="h2:1", broker_id=3, enable_acting_master=True, topics={}), None)
    assert row(tables, "T").perm == 4


def test_when_the_master_leaves_acting_groups_become_read_only(tables: RouteTables) -> None:
    tables.register(said(enable_acting_master=True), "m")
    tables.register(said(address="h2:1", broker_id=1, enable_acting_master=True), "s")
    assert row(tables, "T").perm == 6
    tables.connection_closed("m")
    assert row(tables, "T").perm == 4
    assert tables.brokers["a"].addresses == {1: "h2:1"}


def test_an_address_has_one_broker_id(tables: RouteTables) -> None:
    tables.register(said(broker_id=1), None)
    tables.register(said(broker_id=0), None)
    assert tables.brokers["a"].addresses == {0: "h1:1"}


def test_an_address_has_one_broker_name(tables: RouteTables) -> None:
    tables.register(said("a"), None)
    tables.register(said("b"), None)
    assert list(tables.brokers) == ["b"]
    assert tables.clusters == {"C": {"b"}}
    assert list(tables.topics.rows("T")) == ["b"]


def test_a_broker_id_moves_to_a_new_address_unless_the_old_one_is_newer(
    tables: RouteTables, clock: Clock
) -> None:
    tables.register(said(data_version=DataVersion(1, 5, 1)), None)
    tables.register(said(address="h2:1", data_version=DataVersion(9, 4, 9)), None)
    assert tables.brokers["a"].addresses == {0: "h1:1"}
    tables.register(said(address="h2:1", data_version=DataVersion(9, 5, 9)), None)
    assert tables.brokers["a"].addresses == {0: "h2:1"}
    assert list(tables.live) == [("C", "h2:1")]
    clock.now_ms += 200_000
    tables.expire()
    assert not tables.brokers and not tables.live


def test_a_broker_may_move_to_another_cluster(tables: RouteTables) -> None:
    tables.register(said(), "old")
    tables.register(said(cluster="D"), "new")
    assert tables.clusters == {"D": {"a"}}
    tables.connection_closed("old")
    assert tables.brokers["a"].addresses == {0: "h1:1"}
    tables.connection_closed("new")
    assert not tables.brokers and not tables.clusters and not tables.live


def test_silence_ends_after_120_seconds_or_what_the_broker_said(
    tables: RouteTables, clock: Clock
) -> None:
    tables.register(said("a", "h1:1"), "one")
    tables.register(said("b", "h2:1", heartbeat_timeout_ms=3000), "two")
    clock.now_ms += 3000
    assert tables.expire() == []
    clock.now_ms += 1
    assert tables.expire() == ["two"]
    assert list(tables.brokers) == ["a"]
    clock.now_ms += 100_000
    tables.touch("C", "h1:1")
    clock.now_ms += 120_000
    assert tables.expire() == []
    clock.now_ms += 1
    assert tables.expire() == ["one"]
    assert tables.topics.topics() == []


def test_only_the_connection_registered_on_last_counts(tables: RouteTables) -> None:
    tables.register(said(), "one")
    tables.register(said(), "two")
    tables.connection_closed("one")
    assert "a" in tables.brokers
    tables.connection_closed("two")
    assert "a" not in tables.brokers


def test_all_brokers_of_a_closed_connection_go(tables: RouteTables) -> None:
    tables.register(said("a", "h1:1"), "one")
    tables.register(said("b", "h2:1"), "one")
    tables.connection_closed("one")
    assert not tables.brokers


def test_unregistering_removes_one_process_and_the_last_takes_the_topics(
    tables: RouteTables,
) -> None:
    tables.register(said(), None)
    tables.register(said(address="h2:1", broker_id=1), None)
    tables.unregister("C", "h1:1", "another")
    assert tables.brokers["a"].addresses == {0: "h1:1", 1: "h2:1"}
    tables.unregister("C", "h1:1", "a")
    assert tables.topics.topics() == ["T", "TBW102"]
    tables.unregister("C", "h2:1", "a")
    assert tables.topics.topics() == []
    tables.unregister("C", "h2:1", "a")


def test_topics_are_deleted_for_one_cluster_or_for_all(tables: RouteTables) -> None:
    tables.register(said("a", "h1:1"), None)
    tables.register(said("b", "h2:1", cluster="D"), None)
    tables.remove_topic("T", "C")
    assert list(tables.topics.rows("T")) == ["b"]
    assert tables.topics_of_cluster("C") == ["TBW102"]
    assert tables.topics_of_cluster("D") == ["T", "TBW102"]
    assert tables.topics_of_cluster("nowhere") == []
    tables.remove_topic("TBW102", None)
    assert tables.topics.topics() == ["T"]


def test_write_permission_is_taken_and_given_for_a_whole_broker(tables: RouteTables) -> None:
    tables.register(said("a", "h1:1"), None)
    tables.register(said("b", "h2:1"), None)
    assert tables.topics.change_write_permission("a", False) == 2
    assert (row(tables, "TBW102").perm, row(tables, "T").perm) == (5, 4)
    assert row(tables, "T", "b").perm == 6
    assert tables.topics.change_write_permission("a", True) == 2
    assert (row(tables, "TBW102").perm, row(tables, "T").perm) == (6, 6)
    assert tables.topics.change_write_permission("nobody", False) == 0


def test_unit_topics_are_told_apart_by_their_flags(tables: RouteTables) -> None:
    flags = {f"T{flag}": {"topicSysFlag": flag} for flag in range(4)}
    tables.register(said(topics=flags), None)
    assert tables.topics.unit_topics() == ["T1", "T3"]
    assert tables.topics.unit_subscribed_topics() == ["T2", "T3"]
    assert tables.topics.unit_subscribed_plain_topics() == ["T2"]


def test_filter_servers_are_kept_until_an_empty_list_is_said(tables: RouteTables) -> None:
    tables.register(said(filter_servers=["f:1"]), None)
    tables.register(said(), None)
    assert tables.live["C", "h1:1"].filter_servers == ["f:1"]
    tables.register(said(filter_servers=[]), None)
    assert tables.live["C", "h1:1"].filter_servers == []


def test_queue_maps_follow_the_data_version_and_the_topic(tables: RouteTables) -> None:
    tables.register(said(queue_maps={"T": {"bname": "a", "epoch": 1}}), None)
    assert tables.topics.mappings("T") == {"a": {"bname": "a", "epoch": 1}}
    tables.register(said(queue_maps={"T": {"bname": "a", "epoch": 2}}), None)
    assert tables.topics.mappings("T") == {"a": {"bname": "a", "epoch": 1}}
    tables.remove_topic("T", None)
    assert tables.topics.mappings("T") is None


def test_rows_by_hand_need_known_brokers(tables: RouteTables) -> None:
    tables.register(said(), None)
    assert not tables.put_topic("X", [QueueData("a", 6, 1, 0, 1), QueueData("zz", 6, 1, 0, 1)])
    assert tables.topics.rows("X") == {}
    assert tables.put_topic("X", [QueueData("a", 6, 1, 0, 1)])
    assert tables.topics.has("X", "a")
