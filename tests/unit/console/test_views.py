"""What pages show of bodies, histories, numbers and long lists."""

from __future__ import annotations

import zlib

import pytest
from support.driven_clock import DrivenClock

pytest.importorskip("starlette", reason="rmq[console] is not installed")

from starlette.requests import Request

from rmq.client.blocking.tail import received
from rmq.codes import COMPRESSED_FLAG, COMPRESSION_LZ4_TYPE
from rmq.console.body_view import HEX_BYTES_MAX, TEXT_MAX, body_view, whole_body
from rmq.console.history import GAP_S, KEYS_MAX, POINTS, History
from rmq.console.page import moment, number, percent, rate, size, url
from rmq.console.paging import ROWS_MAX, Paging
from rmq.console.spark_line import HEIGHT, WIDTH, SparkLine
from rmq.format.message import StoredMessage


def message(body: bytes, sys_flag: int = 0) -> object:
    return received("broker-a", StoredMessage(topic="t", body=body, sys_flag=sys_flag))


@pytest.mark.parametrize(
    ("body", "asked", "kind", "shown"),
    [
        (b"hello", "", "text", "hello"),
        (b'{"a":[1,2]}', "", "json", '{\n  "a": [\n    1,\n    2\n  ]\n}'),
        (b'{"a":[1,2]}', "text", "text", '{"a":[1,2]}'),
        (b'{"a":1', "", "text", '{"a":1'),
        (b"17", "json", "text", "17"),
        (b"\xff\x00", "text", "hex", "000000  ff 00"),
        (b"hi", "hex", "hex", "000000  68 69"),
        (b"a\x1b[2Jb\r\n", "", "text", "a\ufffd[2Jb\ufffd\n"),
        (b"", "", "text", ""),
        (b'{"<b>":"\\u202e"}', "", "json", '{\n  "<b>": "\\u202e"\n}'),
    ],
)
def test_a_body_is_shown_as_what_it_is(body: bytes, asked: str, kind: str, shown: str) -> None:
    view = body_view(message(body), asked)
    assert view.kind == kind
    assert view.text.startswith(shown)
    assert view.size == len(body)


def test_of_a_large_body_the_beginning_is_shown() -> None:
    view = body_view(message(b"x" * (TEXT_MAX + 1)), "")
    assert (len(view.text), view.is_cut) == (TEXT_MAX, True)
    view = body_view(message(b"\xff" * (HEX_BYTES_MAX + 1)), "")
    assert (len(view.text.splitlines()), view.is_cut) == (HEX_BYTES_MAX // 16, True)
    assert not body_view(message(b"\xff" * HEX_BYTES_MAX), "").is_cut


def test_nesting_without_end_is_text() -> None:
    assert body_view(message(b"[" * 50_000 + b"]" * 50_000), "").kind == "text"


def test_packed_bodies_are_unpacked_where_that_can_be_done() -> None:
    packed = message(zlib.compress(b"hello"), COMPRESSED_FLAG)
    assert whole_body(packed) == (b"hello", None)
    damaged = message(b"no lz4", COMPRESSED_FLAG | COMPRESSION_LZ4_TYPE)
    assert whole_body(damaged) == (b"no lz4", "lz4")
    view = body_view(damaged, "text")
    assert (view.kind, view.packing) == ("hex", "lz4")


@pytest.mark.still_clock
def test_a_history_has_points_some_seconds_apart_and_forgets_the_oldest(clock: DrivenClock) -> None:
    history = History()
    history.note("a", 1)
    history.note("a", 2)  # too soon after the first
    assert history.of("a") == [(0.0, 1)]
    later = GAP_S + 0.5  # as numbers of seconds are not exact, GAP_S later may be too soon
    for value in range(POINTS + 5):
        clock.advance(later)
        history.note("a", value)
    found = history.of("a")
    assert len(found) == POINTS
    assert found[-1] == (0.0, POINTS + 4)
    assert found[0][0] == pytest.approx(later * (POINTS - 1))
    for key in range(KEYS_MAX):
        history.note(key, 0)
    assert history.of("a") == []


def test_a_line_of_a_history_fits_its_box_and_can_be_read_aloud() -> None:
    line = SparkLine([(120.0, 40), (60.0, 60), (0.0, 0)])
    points = [tuple(map(float, each.split(","))) for each in line.points.split()]
    assert points[0][0] == 0.0
    assert points[-1][0] == WIDTH
    assert points[1][1] < points[0][1] < points[-1][1] <= HEIGHT
    assert line.words == "40 2m 0s before, 0 at last, 60 at most"
    assert not SparkLine([(0.0, 1)]).is_known
    assert not SparkLine([]).is_known
    assert SparkLine([(1.0, 0), (1.0, 0)]).points  # must not divide by zero


@pytest.mark.parametrize(("said", "page"), [("", 1), ("2", 2), ("3", 3), ("99", 3), ("-1", 1),
                                            ("x", 1), ("²", 1), ("9" * 50, 1)])  # fmt: skip
def test_a_long_list_has_pages_whatever_is_asked_for(said: str, page: int) -> None:
    request = Request({"type": "http", "query_string": f"page={said}".encode(), "headers": []})
    paging = Paging.of(request, range(2 * ROWS_MAX + 1))
    assert (paging.page, paging.pages, paging.count) == (page, 3, 2 * ROWS_MAX + 1)
    assert len(paging.rows) == (1 if page == 3 else ROWS_MAX)
    assert Paging.of(request, []).pages == 1


def test_numbers_are_read_at_a_glance() -> None:
    assert [number(None), number(1234567)] == ["–", "1,234,567"]
    assert [rate(0), rate(2.25), rate(1234.5), rate(None)] == ["0", "2.2", "1,234", "–"]
    assert [percent(0.456), percent(None)] == ["46%", "–"]
    assert [size(0), size(1023), size(1536), size(5 << 40), size(None)] == [
        "0 B", "1,023 B", "1.5 KiB", "5.0 TiB", "–"
    ]  # fmt: skip
    assert moment(0) == "–"


def test_a_link_holds_any_name() -> None:
    assert url("/topic", topic='%RETRY%g&"<x>', none=None, empty="") == (
        "/topic?topic=%25RETRY%25g%26%22%3Cx%3E"
    )
    assert url("/topics") == "/topics"
