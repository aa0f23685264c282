"""Where reading begins and ends: each form, and the errors for what is no such form."""

from __future__ import annotations

import pytest

from rmq.client.blocking.tail import Start
from rmq.operations.starts import parse_start
from rmq.operations.times import moment_members, moment_ms

MS = 1_763_726_400_123


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("first", Start("first")),
        ("start", Start("first")),
        ("last", Start("last")),
        ("end", Start("last")),
        ("17", Start("offset", 17)),
        ("17:", Start("offset", 17)),
        ("1763726400:", Start("offset", 1763726400)),
        ("17:25", Start("offset", 17, 25)),
        (":25", Start("offset", 0, 25)),
        (":", Start("first")),
        ("-10", Start("back", 10)),
        (f"{MS}", Start("time", MS)),
        (f"@{MS}", Start("time", MS)),
        ("1763726400", Start("time", 1_763_726_400_000)),
        ("@2025-11-21T12:00:00.123Z", Start("time", MS)),
        (f"@{MS}:@{MS + 1}", Start("time", MS, until_ms=MS + 1)),
        (f"{MS}:@2025-11-22T00:00:00Z", Start("time", MS, until_ms=1_763_769_600_000)),
    ],
)
def test_each_form(text: str, start: Start) -> None:
    assert parse_start(text) == start


def test_a_local_time_has_colons_of_its_own() -> None:
    found = parse_start("@2025-06-01T08:30:@2025-06-01T09:30:15")
    assert found == Start("time", moment_ms("2025-06-01T08:30"),
                          until_ms=moment_ms("2025-06-01T09:30:15"))  # fmt: skip
    assert parse_start("2025-06-01 08:30:00.250:@2025-06-01 09:30:15.000") == Start(
        "time", moment_ms("2025-06-01T08:30") + 250, until_ms=moment_ms("2025-06-01T09:30:15")
    )
    assert parse_start("@-2h").number < parse_start("@-1h").number < parse_start("@now").number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "soon",
        "@soon",
        "@5",
        "5:5",
        "9:3",
        f"@{MS}:@{MS}",
        "@-1h:@-2h",
        "-",
        "1:2:3",
        "@a:@b",
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse_start(text)


def test_the_data_of_commands_has_moments_that_can_be_given_again() -> None:
    members = moment_members("stored", MS)
    assert members == {"stored": "2025-11-21T12:00:00.123Z", "stored_ms": MS}
    assert moment_ms(members["stored"]) == MS
    assert moment_members("stored", 0) == {"stored": None, "stored_ms": None}
    assert moment_members("stored", 2**62)["stored"] is None
