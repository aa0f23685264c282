"""Goal: Python's keywords and values mean the same as Spark's options, and errors name the
keywords."""

from __future__ import annotations

import inspect
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import get_type_hints

import pytest

pytest.importorskip("pyarrow")

import rmq
from rmq.arrow import keywords
from rmq.arrow.arguments import (
    BROKER,
    STORE,
    WRITE,
    python_names,
    read_options_of,
    texts_of,
)
from rmq.arrow.options import OptionError
from rmq.arrow.queues import DataLossError
from rmq.arrow.read_plan import DamagedMessageError
from rmq.arrow.rows import BadRowError
from rmq.errors import ConfigError

ADDRESS = {"nameserver": "127.0.0.1:9876"}
UTC = timezone.utc


def test_type_checkers_know_the_same_keywords() -> None:
    own = {"topic", "path"}
    assert set(get_type_hints(keywords.ReadKeywords)) == set(BROKER) - own
    assert set(get_type_hints(keywords.ScanKeywords)) == set(STORE) - own
    assert set(get_type_hints(keywords.WriteKeywords)) == set(WRITE) - own


@pytest.mark.parametrize(
    ("function", "known"),
    [
        (rmq.read_table, BROKER),
        (rmq.read_batches, BROKER),
        (rmq.scan_store, STORE),
        (rmq.write_table, WRITE),
    ],
)
def test_help_names_each_keyword(function, known) -> None:
    shown = inspect.signature(function).parameters
    assert set(known) <= set(shown)
    assert all(word in (inspect.getdoc(function) or "") for word in known)


def test_values_become_those_of_the_options() -> None:
    moment = datetime(2026, 6, 1, 12, tzinfo=UTC)
    options = read_options_of(
        {
            "topic": ["a", "b"], "columns": ("body", "tags"), "tags": ["x", "y"],
            "starting_timestamp": moment, "plan_timeout_ms": timedelta(seconds=2),
            "poll_timeout_ms": "3s", "fail_on_data_loss": False, "use_tls": True, "batch_rows": 7,
            "group": None,
        },
        BROKER, ADDRESS,
    )  # fmt: skip
    assert options.topics == ("a", "b") and options.columns == ("body", "tags")
    assert options.tags == ("x", "y") and options.starting_timestamp == 1_780_315_200_000
    assert (options.plan_timeout_ms, options.poll_timeout_ms) == (2000, 3000)
    assert (options.fail_on_data_loss, options.tls, options.batch_rows) == (False, True, 7)
    assert options.group is None and options.nameserver == "127.0.0.1:9876"


def test_offsets_and_times_of_queues_are_dicts() -> None:
    options = read_options_of(
        {"topic": "t", "starting_offsets": {"t": {"broker-a": {0: 5}}},
         "ending_offsets_by_timestamp": {"t": {0: datetime(2026, 6, 1, tzinfo=UTC)}}},
        BROKER, ADDRESS,
    )  # fmt: skip
    assert options.starting_offsets == '{"t": {"broker-a": {"0": 5}}}'
    assert options.ending_offsets_by_timestamp == '{"t": {"0": 1780272000000}}'


def test_a_time_without_a_zone_is_local() -> None:
    moment = datetime(2026, 6, 1)
    options = read_options_of({"topic": "t", "starting_timestamp": moment}, BROKER, ADDRESS)
    assert options.starting_timestamp == int(moment.timestamp() * 1000)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topik": "t"}, "no argument topik; there is topic"),
        ({"topic": "t", "pushdown": True}, "no argument pushdown"),
        ({"topic": "t", "path": Path("x")}, "no argument path"),
        ({"topic": "t", "starting_offsets": "soon"}, r"^starting_offsets='soon': give earliest"),
        (
            {"topic": "t", "starting_offsets": "latest"},
            "^starting_offsets=latest would read nothing",
        ),
        ({"topic": "t", "tags": ["a,b"]}, "tags=.* is neither text"),
        ({"topic": "t", "columns": []}, "columns=.* is neither text"),
        ({"topic": "t", "tags": 1.5}, "tags=1.5: it is neither"),
        ({"topic": "t", "access_key": "a"}, "^access_key and secret_key: give both"),
        ({"topic": "t", "schema": "avro"}, "^option schema='avro': give rmq or kafka"),
        ({"topic": "t", "subscribe_pattern": "x"}, "subscribe_pattern: give only one"),
        ({"starting_offsets": {"t": object()}}, "is no offset, no queue and no time"),
        ({}, "no topic: give topic, subscribe_pattern or assign"),
    ],
)
def test_what_cannot_be_is_refused_by_its_keyword(given, said: str) -> None:
    from rmq.arrow.offsets import start_of

    with pytest.raises(OptionError, match=said) as caught, python_names():
        start_of(read_options_of(given, BROKER, ADDRESS))
    assert isinstance(caught.value, ConfigError)


def test_other_errors_name_keywords_too() -> None:
    with (
        pytest.raises(DataLossError, match=r"^gone; fail_on_data_loss=false reads on$"),
        python_names(),
    ):
        raise DataLossError("gone; failOnDataLoss=false reads on")


def test_what_stands_in_values_is_left_as_it_is() -> None:
    with pytest.raises(OptionError) as caught, python_names():
        raise OptionError("option tlsCaFile: /etc/pki/tls/ca.pem of nameserver:9876; tls=true")
    assert str(caught.value) == "tls_ca_file: /etc/pki/tls/ca.pem of nameserver:9876; use_tls=true"


def test_values_of_numpy_and_pandas_are_numbers_and_times() -> None:
    pandas = pytest.importorskip("pandas")
    numpy = pytest.importorskip("numpy")
    moment = datetime(2026, 6, 1)
    given = {
        "topic": "t", "starting_timestamp": pandas.Timestamp(moment), "batch_rows": numpy.int64(5),
        "starting_offsets": {"t": {numpy.int64(1): numpy.int64(7)}}, "assign": {"t": {0}},
        "plan_timeout_ms": timedelta(milliseconds=4035), "namesrv_addr": ["a:1", "b:2"],
    }  # fmt: skip
    texts = texts_of(given, BROKER)
    assert texts["startingTimestamp"] == str(int(moment.timestamp() * 1000))
    assert texts["batchRows"] == "5" and texts["startingOffsets"] == '{"t": {"1": 7}}'
    assert texts["assign"] == '{"t": [0]}' and texts["planTimeoutMs"] == "4035"
    assert texts["nameserver"] == "a:1;b:2"


@pytest.mark.parametrize("word", ["secret_key", "tls_key_password", "security_token"])
def test_secrets_are_in_no_error(word: str) -> None:
    for value in (b"s3cr3t", ["s3cr3t,"], 1.5):
        with pytest.raises(OptionError) as caught:
            texts_of({word: value}, BROKER)
        assert "s3cr3t" not in str(caught.value)


def test_an_old_frame_of_pandas_is_told_what_makes_a_table_of_it() -> None:
    frame = type("DataFrame", (), {"__module__": "pandas.core.frame"})()
    with pytest.raises(ConfigError, match=r"DataFrame gives no Arrow data: pandas does from 2\.2"):
        rmq.write_table(frame, "orders")


def test_what_tables_raise_can_be_caught_by_names_of_rmq() -> None:
    assert (rmq.DataLossError, rmq.OptionError) == (DataLossError, OptionError)
    assert (rmq.DamagedMessageError, rmq.BadRowError) == (DamagedMessageError, BadRowError)
