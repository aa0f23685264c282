"""The walk over pulled records counts what is right and stops at what is wrong.

Method: records packed here from the layout, then damaged byte by byte. Not shown here: that brokers
lay out their records so; tests/compat pulls real ones.
"""

import pytest
from support.stored_records import V2, record

from cext.testing.load_probe import records_walked, since_number_ns, unique_number_of


def test_records_of_every_shape_are_walked():
    data = (
        record(7) + record(8, b"", properties=b"") + record(9, flags=0x10) + record(10, flags=0x20)
        + record(11, b"x" * 5000, flags=0x30) + record(12, topic=b"t" * 200, magic=V2)
    )  # fmt: skip
    assert records_walked(data, 7) == (6, 4 * 4 + 5000, 12)
    assert records_walked(b"", 7) == (0, 0, 6)


def test_skipped_offsets_are_right_and_repeated_ones_are_not():
    assert records_walked(record(7) + record(9), 7) == (2, 8, 9)
    with pytest.raises(ValueError):
        records_walked(record(7) + record(7), 7)
    with pytest.raises(ValueError):
        records_walked(record(6), 7)


def test_a_cut_row_is_wrong():
    data = record(1) + record(2)
    for cut in range(1, len(data)):
        if cut != len(record(1)):
            with pytest.raises(ValueError):
                records_walked(data[:cut], 1)


def test_a_flipped_bit_in_size_magic_lengths_or_body_is_noticed():
    whole = record(5, b"b" * 40)
    body_at = 88
    watched = [*range(12), 20, *range(84, body_at + 41), 134, 135]
    for at in watched:
        damaged = bytearray(whole)
        damaged[at] ^= 0x80
        with pytest.raises(ValueError):
            records_walked(bytes(damaged), 5)


def test_a_wrong_body_passes_only_when_no_checksum_is_asked_for():
    damaged = record(5, b"b" * 40).replace(b"bbbb", b"abbb", 1)
    assert records_walked(damaged, 5, False) == (1, 40, 5)
    with pytest.raises(ValueError):
        records_walked(damaged, 5, True)


def test_the_number_of_a_unique_key_is_found_wherever_it_stands():
    key = b"UNIQ_KEY\x017F0000010A0B5D30946E00000000BEEF\x02"
    assert unique_number_of(record(1, properties=key)) == 0xBEEF
    assert unique_number_of(record(1) + record(2, properties=b"WAIT\x01true\x02" + key)) == 0xBEEF
    assert unique_number_of(record(1)) == -1
    assert unique_number_of(record(1, properties=key[:30])) == -1
    assert unique_number_of(record(1, properties=key.replace(b"BEEF", b"BEEf"))) == -1


@pytest.mark.parametrize("now_ns", [10**12, 1 << 48, (5 << 48) + 7, (1 << 62) + 12_345])
def test_the_time_since_a_number_holds_on_a_machine_that_is_up_for_years(now_ns: int) -> None:
    low = (1 << 48) - 1
    for passed in (0, 1, 3_000_000, 38 * 3600 * 10**9, -1, -5000):
        assert since_number_ns((now_ns - passed) & low, now_ns) == passed
