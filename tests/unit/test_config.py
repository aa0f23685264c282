"""Settings: goal, that a RocketMQ property file loads with its own meaning and that every mistake
is answered with key, value and the allowed form. Method: values in, values and messages out."""

import pytest

from rmq.config import Settings, load_properties
from rmq.config_table import broker_table
from rmq.errors import ConfigError


def test_defaults_are_rocketmqs_but_bind_to_loopback() -> None:
    settings = Settings()
    assert settings.flushDiskType == "ASYNC_FLUSH"
    assert settings.maxMessageSize == 4194304
    assert settings.mappedFileSizeCommitLog == 1 << 30
    assert settings.autoCreateTopicEnable is True
    assert settings.deleteWhen == "04"
    assert settings.logicalDiskSpaceCleanForciblyThreshold == 0.8
    assert settings.timerCheckMetricsWhen == "05"
    assert (settings.listenPort, settings.brokerIP1) == (10911, "127.0.0.1")
    assert settings.bindAddress == "127.0.0.1"
    settings.check()


@pytest.mark.parametrize("text", ["sync", "SYNC", "SYNC_FLUSH", " sync_flush "])
def test_flush_type_takes_short_and_long_names(text: str) -> None:
    settings = Settings()
    settings.set("flushDiskType", text)
    assert settings.flushDiskType == "SYNC_FLUSH"


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("listenPort", "70000", "listenPort=70000: a whole number from 0 to 65535"),
        ("listenPort", "1_0", "listenPort=1_0: a whole number from 0 to 65535"),
        ("listenPort", "٣", "listenPort=٣: a whole number from 0 to 65535"),
        ("listenPort", "", "listenPort=: a whole number from 0 to 65535"),
        ("autoCreateTopicEnable", "yes", "autoCreateTopicEnable=yes: true or false"),
        (
            "flushDiskType",
            "never",
            "flushDiskType=never: one of ASYNC_FLUSH, SYNC_FLUSH, async, sync",
        ),
        ("logicalDiskSpaceCleanForciblyThreshold", "0.8.1", "a number such as 0.5"),
        ("brokerName", "a\nb", "text without control characters"),
        ("aclEnable", "true", "aclEnable=true: refused, rmq has no access control yet"),
        ("storeType", "defaultRocksDB", "storeType=defaultRocksDB: one of default"),
        ("listenprt", "1", "listenprt: no such setting. Did you mean listenPort?"),
        ("zzzzzz", "1", "zzzzzz: no such setting."),
    ],
)
def test_mistakes_name_key_value_and_form(key: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings().set(key, text)
    assert message in str(caught.value)


def test_every_default_survives_its_own_text_form() -> None:
    settings = Settings()
    before = dict(settings.items())
    for key, text in before.items():
        settings.set(key, text)
    assert dict(settings.items()) == before
    assert settings.without_effect() == []


def test_null_settings_are_listed_only_when_set() -> None:
    settings = Settings()
    assert "namesrvAddr" not in dict(settings.items())
    settings.set("namesrvAddr", "127.0.0.1:9876")
    assert dict(settings.items())["namesrvAddr"] == "127.0.0.1:9876"


def test_keys_of_rocketmq_without_effect_are_kept_and_named() -> None:
    settings = Settings()
    settings.set("sendMessageThreadPoolNums", "64")
    settings.set("useReentrantLockWhenPutMessage", "true")  # the default: nothing to tell
    assert settings.sendMessageThreadPoolNums == 64
    assert settings.without_effect() == ["sendMessageThreadPoolNums"]


def test_run_time_changes_are_all_or_nothing() -> None:
    settings = Settings()
    with pytest.raises(ConfigError, match="listenPort: cannot be changed while"):
        settings.change({"fileReservedTime": "48", "listenPort": "1"})
    assert settings.fileReservedTime == 72
    assert not settings.given("fileReservedTime")
    settings.change({"fileReservedTime": "48"})
    assert settings.fileReservedTime == 48


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rmqRingBytes": "4194304"}, "holds no message of maxMessageSize"),
        ({"rmqRingBytes": "16777217"}, "a power of two"),
        ({"mappedFileSizeConsumeQueue": "6000001"}, "a multiple of 20"),
        ({"diskSpaceCleanForciblyRatio": "95"}, "at most diskSpaceWarningLevelRatio=90"),
        ({"brokerRole": "SLAVE"}, "does not replicate"),
        ({"brokerId": "1"}, "does not replicate"),
    ],
)
def test_relations_between_settings_are_checked(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_properties(None, changes)
    assert message in str(caught.value)


def test_file_then_overrides(tmp_path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(
        "brokerName = broker-中\nlistenPort=10911\nflushDiskType=ASYNC_FLUSH\n", "utf-8"
    )
    settings = load_properties(path, {"flushDiskType": "sync"})
    assert settings.brokerName == "broker-中"
    assert settings.flushDiskType == "SYNC_FLUSH"


def test_mistake_in_a_file_names_the_file(tmp_path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("listenPort=x\n")
    with pytest.raises(ConfigError, match=r"broker\.conf: listenPort=x: a whole number"):
        load_properties(path)
    path.write_bytes(b"brokerName=\xff\n")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 11"):
        load_properties(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_properties(tmp_path / "absent.conf")


def test_name_server_has_its_own_keys() -> None:
    settings = load_properties(None, {"orderMessageEnable": "true"}, namesrv=True)
    assert (settings.listenPort, settings.orderMessageEnable) == (9876, True)
    with pytest.raises(ConfigError, match="flushDiskType: no such setting"):
        settings.set("flushDiskType", "sync")


def test_table_is_in_alphabetical_order_and_typed() -> None:
    table = broker_table()
    assert list(table) == sorted(table)
    assert len(table) > 430
    assert {row.kind for row in table.values()} == {"bool", "int", "double", "text", "choice"}
