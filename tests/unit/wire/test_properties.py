"""Goal: property strings are split by Java's rule, and tags get Java's hash code.

Agreement with the pure-Python twin over generated strings is in tests/contract/test_wire_twins.py.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from support.volume import volume
from support.wire_frames import JAVA_SEND_V2_PROPERTIES, MALFORMED, OK, TOO_LARGE

from cext.testing.message_probe import (
    batched_properties,
    code_of_tag,
    found_property,
    properties_scanned,
    property_appended,
)


def pairs(*items: str) -> bytes:
    return "".join(f"{item}\x02" for item in items).replace("=", "\x01").encode()


def test_properties_of_a_java_send_are_scanned() -> None:
    found = properties_scanned(JAVA_SEND_V2_PROPERTIES)
    assert found["status"] == OK
    assert found["values"] == {
        "UNIQ_KEY": b"7F0000010AAA18B4AAC2123456780000", "KEYS": b"order-17", "WAIT": b"true",
        "TAGS": b"TagA",
    }  # fmt: skip
    assert found["wait_store_ok"] and found["terminated"]
    assert not (found["has_delay"] or found["has_transaction"] or found["has_timer"])


def test_every_known_name_is_found_under_its_own_member() -> None:
    names = [
        "TAGS", "KEYS", "UNIQ_KEY", "WAIT", "DELAY", "TRAN_MSG", "PGROUP", "RETRY_TOPIC",
        "REAL_TOPIC", "REAL_QID", "ORIGIN_MESSAGE_ID", "TIMER_DELAY_SEC", "TIMER_DELAY_MS",
        "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY", "MSG_REGION", "TRACE_ON", "CLUSTER", "POP_CK",
        "INNER_MULTI_DISPATCH", "INNER_NUM", "__BORNHOST", "MSG_TYPE", "TIMER_OUT_MS",
        "TIMER_ROLL_TIMES", "__SHARDINGKEY",
    ]  # fmt: skip
    values = {name: str(i) for i, name in enumerate(names)}
    found = properties_scanned(pairs(*(f"{name}={value}" for name, value in values.items())))
    assert found["values"] == {name: value.encode() for name, value in values.items()}


def test_conclusions_follow_from_the_values() -> None:
    assert properties_scanned(pairs("WAIT=false"))["wait_store_ok"] is False
    assert properties_scanned(pairs("WAIT=no"))["wait_store_ok"] is False
    assert properties_scanned(b"")["wait_store_ok"] is True
    assert properties_scanned(pairs("TRAN_MSG=TRUE"))["has_transaction"] is True
    assert properties_scanned(pairs("TRAN_MSG=1"))["has_transaction"] is False
    assert properties_scanned(pairs("DELAY=3"))["delay_level"] == 3
    assert properties_scanned(pairs("DELAY=3"))["has_delay"] is True
    assert properties_scanned(pairs("DELAY=0"))["has_delay"] is False
    assert properties_scanned(pairs("DELAY=-1"))["has_delay"] is False
    for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"):
        assert properties_scanned(pairs(f"{name}=5"))["has_timer"] is True


def test_a_delay_that_is_no_number_is_malformed() -> None:
    for value in ("x", "1.5", "2147483648"):
        assert properties_scanned(pairs(f"DELAY={value}"))["status"] == MALFORMED


def test_more_than_a_record_can_hold_is_refused() -> None:
    assert properties_scanned(b"x" * 32767)["status"] == OK
    assert properties_scanned(b"x" * 32768)["status"] == TOO_LARGE


def test_pieces_that_are_no_pairs_are_ignored() -> None:
    for data in (
        b"TAGS", b"TAGS\x01", b"\x01TAGS", b"\x02\x02", b"\x01", b"\x01\x01\x01\x02",
        b"TAGS\x02\x01A",
    ):  # fmt: skip
        assert properties_scanned(data)["values"] == {}, data


def test_values_keep_further_separators_and_the_end_may_be_open() -> None:
    found = properties_scanned(b"\x02TAGS\x01a\x01b\x02KEYS\x01k")
    assert found["values"] == {"TAGS": b"a\x01b", "KEYS": b"k"}
    assert found["terminated"] is False


def test_the_later_of_two_equal_names_counts() -> None:
    data = pairs("TAGS=a", "x=1", "TAGS=b", "x=2", "TAGS=")
    assert properties_scanned(data)["values"] == {"TAGS": b"b"}
    assert found_property(data, b"x") == b"2"


def test_any_property_can_be_found() -> None:
    assert found_property(pairs("color=red", "colour=blue"), b"colour") == b"blue"
    assert found_property(pairs("color=red"), b"colo") is None
    assert found_property(b"", b"color") is None


def test_an_appended_pair_is_found_again() -> None:
    data = property_appended(b"CLUSTER", b"DefaultCluster")
    assert data == b"CLUSTER\x01DefaultCluster\x02"
    assert properties_scanned(pairs("TAGS=a") + data)["values"]["CLUSTER"] == b"DefaultCluster"


def test_tag_codes_are_javas_hash_codes() -> None:
    # The numbers are what "...".hashCode() gives in Java.
    assert code_of_tag(b"") == 0
    assert code_of_tag(b"A") == 65
    assert code_of_tag(b"TagA") == 2598919
    assert code_of_tag(b"polygenelubricants") == -(2**31)
    assert code_of_tag("中文".encode()) == 0x4E2D * 31 + 0x6587
    assert code_of_tag("\U0001f600".encode()) == 0xD83D * 31 + 0xDE00


NAMES = ["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "DELAY", "TRAN_MSG", "TIMER_DELAY_SEC",
         "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "PGROUP", "POP_CK", "x"]  # fmt: skip


@settings(max_examples=volume(200, 500))
@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["", "0", "3", "true", "x", "\x01y"])),
        max_size=5,
    ),
    st.binary(max_size=8),
)
def test_in_a_batch_a_message_has_the_tag_and_is_as_special_as_alone(items, rest) -> None:
    data = "".join(f"{name}\x01{value}\x02" for name, value in items).encode() + rest
    whole = properties_scanned(data)
    status, tags, special, reserved = batched_properties(data)
    assert status == whole["status"]
    if status == OK:
        assert tags == whole["values"].get("TAGS")
        assert special == any(whole[name] for name in ("has_delay", "has_transaction", "has_timer"))
        assert reserved == ("POP_CK" in whole["values"])


def test_too_long_properties_are_too_long_in_a_batch_as_well() -> None:
    assert batched_properties(b"x" * 32768)[0] == TOO_LARGE
