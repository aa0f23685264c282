"""Goal: both kinds of message id have the layout that tools expect when they take an id apart."""

import datetime
import ipaddress

import pytest

from cext.testing.message_probe import offset_message_id, unique_keys

IP4 = ipaddress.ip_address("192.168.1.2").packed
IP6 = ipaddress.ip_address("fe80::1").packed


def local_ms(*parts: int) -> int:
    return int(datetime.datetime(*parts).timestamp() * 1000)


@pytest.mark.parametrize("ip", [IP4, IP6])
def test_offset_message_id_is_host_port_and_offset(ip: bytes) -> None:
    host = ip + (10911).to_bytes(4, "big")
    for offset in (0, 256, 2**63 - 1, 0x0123456789ABCDEF):
        meant = (host + offset.to_bytes(8, "big")).hex().upper().encode()
        assert offset_message_id(host, offset) == meant


@pytest.mark.parametrize("ip", [IP4, IP6])
def test_unique_key_is_ip_pid_discriminator_time_and_counter(ip: bytes) -> None:
    now = local_ms(2026, 11, 21, 12, 0, 1)
    since_month = now - local_ms(2026, 11, 1)
    first, second = unique_keys(ip, 0xABCD, 0x01020304, [now, now])
    fixed = ip + bytes.fromhex("ABCD01020304") + since_month.to_bytes(4, "big")
    assert first == (fixed + b"\x00\x00").hex().upper().encode()
    assert second == (fixed + b"\x00\x01").hex().upper().encode()


def test_time_starts_again_with_the_month_and_the_year() -> None:
    last, first, back = unique_keys(
        IP4, 1, 2, [local_ms(2026, 12, 31, 23, 59, 59), local_ms(2027, 1, 1), local_ms(2026, 2, 1)]
    )
    assert int(last[20:28], 16) == local_ms(2026, 12, 31, 23, 59, 59) - local_ms(2026, 12, 1)
    assert int(first[20:28], 16) == 0
    assert int(back[20:28], 16) == 0


def test_counter_wraps_after_65536_keys() -> None:
    keys = unique_keys(IP4, 1, 2, [local_ms(2026, 1, 2)] * 65537)
    assert len(set(keys)) == 65536
    assert keys[65536] == keys[0]
