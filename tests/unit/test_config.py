"""Settings: goal, that a RocketMQ property file loads with its own meaning and that every mistake
is answered with key, value and the allowed form. Method: values in, values and messages out."""

from pathlib import Path

import pytest

from rmq.broker.core_options import core_options
from rmq.config import ForbiddenError, Settings, load_properties
from rmq.config_table import broker_table
from rmq.errors import ConfigError
from rmq.serving.tls import TlsFiles


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
        ("storeType", "defaultRocksDB", "storeType=defaultRocksDB: one of default"),
        ("listenprt", "1", "listenprt: no such setting. Did you mean listenPort?"),
        ("zzzzzz", "1", "zzzzzz: no such setting. RocketMQ 5.5.0 has none here either: leave it"),
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
    with pytest.raises(ForbiddenError, match="listenPort=1: cannot be changed at run time"):
        settings.change({"fileReservedTime": "48", "listenPort": "1"})
    assert settings.fileReservedTime == 72
    assert not settings.given("fileReservedTime")
    assert settings.change({"fileReservedTime": "48", "listenPort": "10911"}) == []
    assert settings.fileReservedTime == 48


def test_what_a_file_may_have_is_taken_at_run_time_and_named_when_it_does_nothing() -> None:
    settings = Settings()
    changes = {"sendMessageThreadPoolNums": "8", "fileReservedTime": "48", "enableLmq": "false"}
    assert settings.change(changes) == ["enableLmq", "sendMessageThreadPoolNums"]
    assert (settings.sendMessageThreadPoolNums, settings.fileReservedTime) == (8, 48)
    for key in ("configBlackList", "rocketmqHome", "brokerConfigPath"):
        with pytest.raises(ForbiddenError, match=f"{key}: is on the black list"):
            settings.change({key: "x"})
    with pytest.raises(ConfigError, match="more than 4096 characters"):
        settings.change({"metricsLabel": "x" * 4097})
    settings.set("configBlackList", "fileReservedTime;enableLmq")
    with pytest.raises(ForbiddenError, match="enableLmq: is on the black list"):
        settings.change({"enableLmq": "false"})


# key, a value that would be unsafe to ignore, words of the reason, values that mean "off"
UNSAFE = [
    (
        "authenticationProvider",
        "org.example.Mine",
        "no plug-ins of accounts",
        [
            "",
            "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
        ],
    ),
    ("minInSyncReplicas", "2", "needs enableControllerMode", ["1", "0"]),
    ("totalReplicas", "3", "counts replicas otherwise", ["1"]),
    ("allAckInSyncStateSet", "true", "needs enableControllerMode", ["false"]),
    ("enableAutoInSyncReplicas", "true", "counts replicas otherwise", ["false"]),
    ("enableDLegerCommitLog", "true", "no DLedger log", ["false"]),
    ("useTLS", "true", "tls.server.mode", ["false"]),
    ("messageStorePlugIn", "org.example.TieredMessageStore", "fileReservedTime", [""]),
    ("readOnlyCommitLogStorePaths", "/disk2/commitlog", "one directory", [""]),
    ("brokerConfigPaths", "/a.conf:/b.conf", "no broker containers", [""]),
]


@pytest.mark.parametrize(("key", "value", "reason", "off"), UNSAFE)
def test_what_would_be_unsafe_to_ignore_is_refused_everywhere(
    key: str, value: str, reason: str, off: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(f"{key}={value}\n")
    running = Settings()
    for attempt in (
        lambda: load_properties(path),
        lambda: load_properties(None, {key: value}),
        lambda: running.change({"fileReservedTime": "48", key: value}),
    ):
        with pytest.raises(ConfigError) as caught:
            attempt()
        assert f"{key}={value}: refused, " in str(caught.value)
        assert reason in str(caught.value)
        assert "leave it out" in str(caught.value)
    assert running.fileReservedTime == 72
    for text in off:
        path.write_text(f"{key}={text}\n")
        assert load_properties(path).without_effect() == []
        running.change({key: text})


@pytest.mark.parametrize("server", ["broker", "namesrv", "controller"])
def test_certificates_are_named_or_made(server: str) -> None:
    files = {"tls.server.certPath": "/c.pem", "tls.server.keyPath": "/k.pem"}
    enforcing, makes_none = {"tls.server.mode": "enforcing"}, {"tls.test.mode.enable": "false"}
    for wrong, text in (
        ({**enforcing, **makes_none}, "give tls.server.certPath"),
        ({"tls.server.mode": "strict"}, "one of"),
        ({"tls.server.certPath": "/c.pem"}, "give both or none"),
        ({**files, "tls.server.need.client.auth": "require"}, "give tls.server.trustCertPath"),
    ):
        with pytest.raises(ConfigError, match=text):
            load_properties(None, wrong, server=server)
    for right, is_own in (
        ({}, True), ({"tls.server.mode": "permissive"}, True), (enforcing, True),
        ({**files, **enforcing}, False), ({**files, **makes_none}, False),
        (makes_none, None), ({"tls.server.mode": "disabled"}, None),
        ({**files, "tls.server.mode": "disabled"}, None),
    ):  # fmt: skip
        found = TlsFiles.of(load_properties(None, right, server=server))
        assert (found.is_own if found is not None else None) == is_own, right


@pytest.mark.parametrize("server", ["broker", "namesrv", "controller"])
def test_the_file_of_tls_wins_but_for_two(tmp_path: Path, server: str) -> None:
    path = tmp_path / "tls.properties"
    path.write_text(
        "tls.test.mode.enable=false\ntls.server.need.client.auth=none\ntls.server.mode=disabled\n"
        "tls.enable=false\ntls.server.keyPath=/k.pem\ntls.server.certPath=/new.pem\n"
    )
    given = {"tls.config.file": str(path), "tls.server.certPath": "/old.pem", "tls.enable": "true"}
    settings = load_properties(None, given, server=server)
    files = TlsFiles.of(settings)
    assert files is not None
    assert (files.certificate, files.key, files.is_permissive) == ("/new.pem", "/k.pem", True)
    assert getattr(settings, "tls.enable") == "true"
    for text, wrong in (
        ("listenPort=1\n", "is no setting of TLS"),
        ("tls.server.certpath=/c\n", "tls.properties"),
        ("tls.server.keyPath=/k\ntls.server.certPath=\n", "give both or none"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=wrong):
            load_properties(None, {"tls.config.file": str(path)}, server=server)
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_properties(None, {"tls.config.file": str(path)}, server=server)


def test_permissions_without_accounts_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs authenticationEnabled=true"):
        load_properties(None, {"authorizationEnabled": "true"})
    for server in ("broker", "namesrv", "controller"):
        both = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
        assert load_properties(None, both, server=server).authorizationEnabled


def test_secrets_are_in_no_listing_and_in_no_error() -> None:
    settings = Settings()
    secret = '{"username":"admin","password":"geheim"}'
    settings.set("initAuthenticationUser", secret)
    assert dict(settings.items())["initAuthenticationUser"] == secret
    shown = dict(settings.shown())
    assert shown["initAuthenticationUser"] == "******"
    assert shown["innerClientAuthenticationCredentials"] == ""
    for attempt in (
        lambda: settings.change({"initAuthenticationUser": "geheim2"}),
        lambda: settings.set("initAuthenticationUser", "\x01geheim"),
    ):
        with pytest.raises(ConfigError) as caught:
            attempt()
        assert "geheim" not in str(caught.value)


def test_a_log_in_several_directories_is_refused() -> None:
    with pytest.raises(ConfigError, match="several directories"):
        load_properties(None, {"storePathCommitLog": "/a/commitlog,/b/commitlog"})


def test_a_log_elsewhere_may_be_named_from_the_home_directory():
    settings = load_properties(None, {"storePathCommitLog": "~/logs/commitlog"})
    assert settings.commit_log_directory == Path.home() / "logs" / "commitlog"
    assert core_options(settings)["commitlog_dir"] == str(settings.commit_log_directory)


def test_the_name_server_refuses_what_it_cannot_do() -> None:
    for key, value in (("enableControllerInNamesrv", "true"), ("useTLS", "true")):
        with pytest.raises(ConfigError, match=f"{key}={value}: refused"):
            load_properties(None, {key: value}, server="namesrv")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rmqRingBytes": "4194304"}, "holds no message of maxMessageSize"),
        ({"rmqRingBytes": "16777217"}, "a power of two"),
        ({"diskSpaceCleanForciblyRatio": "95"}, "at most diskSpaceWarningLevelRatio=90"),
        ({"brokerRole": "SLAVE"}, "a slave has 1 or more"),
        ({"brokerId": "1"}, "a master has 0"),
        ({"brokerId": "-1"}, "a master has 0"),
        ({"brokerId": "-1", "brokerRole": "SLAVE"}, "a slave has 1 or more"),
    ],
)
def test_relations_between_settings_are_checked(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_properties(None, changes)
    assert message in str(caught.value)


def test_what_rocketmq_works_out_is_worked_out() -> None:
    settings = load_properties(None, {"mappedFileSizeConsumeQueue": "6000001"})
    assert settings.mappedFileSizeConsumeQueue == 6000020
    for message, ring in ((4 << 20, 16 << 20), (8323072, 16 << 20), (8323073, 32 << 20)):
        settings = load_properties(None, {"maxMessageSize": str(message)})
        assert settings.rmqRingBytes == ring
        assert not settings.given("rmqRingBytes")


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
    settings = load_properties(None, {"orderMessageEnable": "true"}, server="namesrv")
    assert (settings.listenPort, settings.orderMessageEnable) == (9876, True)
    with pytest.raises(ConfigError, match="flushDiskType: no such setting"):
        settings.set("flushDiskType", "sync")


def test_table_is_in_alphabetical_order_and_typed() -> None:
    table = broker_table()
    assert list(table) == sorted(table)
    assert len(table) > 430
    assert {row.kind for row in table.values()} == {"bool", "int", "double", "text", "choice"}
