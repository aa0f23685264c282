"""Workload files are read as the OpenMessaging benchmark reads them, and mistakes are named."""

from pathlib import Path

import pytest

from rmq.errors import ConfigError
from rmq.load.workload.settings import Settings, read_settings

pytest.importorskip("yaml")

# In the form of the benchmark's own files.
FILE = """
name: 1 producer / 1 consumers on 1 topic

topics: 1
partitionsPerTopic: 16
messageSize: 1024
payloadFile: "payload/payload-1Kb.data"
subscriptionsPerTopic: 2
consumerPerSubscription: 3
producersPerTopic: 4
producerRate: 50000
consumerBacklogSizeGB: 0
testDurationMinutes: 15
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "workload.yaml"
    path.write_text(text)
    return path


def test_a_file_of_the_benchmark_is_read(tmp_path: Path) -> None:
    settings, unknown = read_settings(written(tmp_path, FILE))
    assert settings == Settings(
        name="1 producer / 1 consumers on 1 topic", topics=1, partitions_per_topic=16,
        message_size=1024, payload_file="payload/payload-1Kb.data", subscriptions_per_topic=2,
        consumer_per_subscription=3, producers_per_topic=4, producer_rate=50_000,
        test_duration_minutes=15, warmup_duration_minutes=1,
    )  # fmt: skip
    assert unknown == []
    assert len(settings.payload()) == 1024 and settings.keys(16) == ()


def test_what_nobody_knows_is_passed_over_by_name(tmp_path: Path) -> None:
    assert read_settings(written(tmp_path, FILE + "later: 1\nodd: x\n"))[1] == ["later", "odd"]


def test_a_workload_needs_no_name(tmp_path: Path) -> None:
    nameless = FILE.replace("name: 1 producer / 1 consumers on 1 topic", "name:")
    assert read_settings(written(tmp_path, nameless))[0].name == "workload"  # the name of its file


def test_a_random_payload_is_as_random_as_it_is_told(tmp_path: Path) -> None:
    more = "useRandomizedPayloads: true\nrandomBytesRatio: 0.25\nrandomizedPayloadPoolSize: 1000\n"
    payload = read_settings(written(tmp_path, FILE + more))[0].payload()
    assert payload[256:] == bytes(768)
    assert len(set(payload[:256])) > 100


def test_keys_are_there_when_they_are_asked_for(tmp_path: Path) -> None:
    for kind in ("KEY_ROUND_ROBIN", "RANDOM_NANO"):
        keys = read_settings(written(tmp_path, f"{FILE}keyDistributor: {kind}\n"))[0].keys(48)
        assert len(set(keys)) == 10_000
        assert len(keys) == 209 * 48  # each queue gets as many keys as the others


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("topics: [", "is no YAML"),
        ("- topics", "is no workload"),
        ("1: 2", "is no workload"),
        ("topics: 1", "partitionsPerTopic"),
        (FILE.replace("topics: 1\n", "topics: 0\n"), r"\$.topics"),
        (FILE.replace("topics: 1\n", "topics: many\n"), r"\$.topics"),
        (FILE.replace("16", "70000"), r"\$.partitionsPerTopic"),
        (FILE.replace("topics: 1\n", "topics: 100000\n"), "1,600,000 queues with 2 subscriptions"),
        (FILE.replace("1024", "99999999"), r"\$.messageSize"),
        (FILE.replace("50000", "-1"), r"\$.producerRate"),
        (FILE.replace("50000", "10000000000000000"), r"\$.producerRate"),
        (FILE.replace("SizeGB: 0", "SizeGB: .inf"), r"\$.consumerBacklogSizeGB"),
        (FILE.replace("SizeGB: 0", "SizeGB: .nan"), r"\$.consumerBacklogSizeGB"),
        (FILE.replace("Minutes: 15", "Minutes: .inf"), r"\$.testDurationMinutes"),
        (FILE + "backlogDrainRatio: 2\n", r"\$.backlogDrainRatio"),
        (FILE + "keyDistributor: BY_MOON\n", "BY_MOON: one of NO_KEY, KEY_ROUND_ROBIN"),
        (FILE.replace("SizeGB: 0", "SizeGB: 1").replace("50000", "0"), "needs a producerRate"),
        (
            FILE.replace("SizeGB: 0", "SizeGB: 1").replace("PerTopic: 2", "PerTopic: 0"),
            "needs subscriptionsPerTopic",
        ),
    ],
)
def test_a_mistake_names_the_file_and_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=why) as raised:
        read_settings(path)
    assert str(path) in str(raised.value)


def test_each_master_has_a_queue_of_each_topic() -> None:
    settings = Settings(
        topics=100_000, partitions_per_topic=1, message_size=1, subscriptions_per_topic=1
    )
    settings.check_templates(masters=2)
    with pytest.raises(ConfigError, match="300,000 queues over 3 masters with 1 subscriptions"):
        settings.check_templates(masters=3)
    assert [Settings(1, 16, 1).queues(masters) for masters in (1, 3, 20)] == [16, 15, 20]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no.yaml cannot be read: No such file"):
        read_settings(tmp_path / "no.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary.yaml is no"):
        read_settings(tmp_path / "binary.yaml")
