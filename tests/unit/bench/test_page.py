"""The page of a comparison shows all results, loads nothing, and is the same each time.

Its plots are checked as files: XML with a dot for each number.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import page
import pytest
from comparison import CPU, RATE, Cell, Comparison, Row, Server, Spread, Turn, save
from support.source_tree import ROOT


def turns(*messages: int, **more) -> list[Turn]:
    return [Turn(1.0, each, 0.5, 64 << 20, **more) for each in messages]


@pytest.fixture
def found() -> Comparison:
    return comparison()


@pytest.fixture(scope="module")
def text() -> str:
    """The whole page, made once, because its plots take a second."""
    return page.html(comparison())


def comparison() -> Comparison:
    machine = {"cpu": "a CPU <fast> & small", "cpus": 2, "virtual": True,
               "time": "2026-01-02T03:04:05+0000", "load": ["0.1", "0.2", "0.3"],
               "pages before": {"Dirty": "1 MiB"}}  # fmt: skip
    servers = {
        "rmq": Server("rmq", "0.1", "C loop", "in the file", {"flushDiskType": "ASYNC_FLUSH"}),
        "apache": Server("RocketMQ", "5.5.0", "C loop", "in the page cache"),
    }
    paced = turns(10, latency_us={"p50": 90.0, "p99": 123_456.0, "p99.9": 200_000.0})
    rows = [
        Row("single-256", "1 connection, window 64", {"window": 64}, {
            "rmq": Cell(turns(412_345, 400_000, 500_000), paced),
            "apache": Cell(turns(41_000, 40_000, 50_000), paced, notes=["<so> so"]),
        }, 20_000.0),
        Row("many-256", "64 connections", {"window": 1}, {
            "rmq": Cell(turns(100_000, failures={"2": 7})),
            "apache": Cell(error="refused & gone", not_offered="it has none"),
        }),
        Row("many-1024", "64 connections, 1024 B", {"window": 1}, {"rmq": Cell(turns(9_000))}),
    ]  # fmt: skip
    synced = {"apache": Server("RocketMQ", "5.5.0", "C loop", "on the disk", {"-Xmx": "3g"})}
    return Comparison(machine, "abcdef012345", 3, 1.0, servers, rows, synced)


class Seen(HTMLParser):
    """The texts of a page, and the resources that it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes) -> None:
        self.loads += [value for name, value in attributes
                       if name in ("src", "href", "xlink:href", "action")
                       and value and not value.startswith("#")]  # fmt: skip
        assert tag not in ("script", "link", "iframe", "object")

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_the_page_shows_numbers_ratios_failures_and_facts(text: str) -> None:
    seen = Seen(text)
    assert seen.loads == []
    for shown in (
        "it has none",  # instead of the number
        "412,000", "400,000 to 500,000",  # rmq's
        "10x", "10 to 10.1",  # rmq's as a ratio to Apache's, of each round
        "123,000", "7", "refused & gone", "<so> so", "ASYNC_FLUSH", "in the page cache",
        "RocketMQ 5.5.0, in rows of SYNC_FLUSH", "on the disk",
        "a CPU <fast> & small", "Dirty 1 MiB", "abcdef012345",
    ):  # fmt: skip
        assert any(shown == each or shown in each for each in seen.texts), shown
    assert "@import" not in text and "url(http" not in text


def test_a_dot_stands_for_each_number_of_a_plot(found: Comparison) -> None:
    text = page.chart(found, RATE)
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg") and root.get("role") == "img"
    # Markers, ticks and the legend's signs are all uses of a shape; only the markers differ here.
    found.rows[1].cells.pop("rmq")
    fewer = page.chart(found, RATE)
    assert text.count("<use ") > fewer.count("<use ")
    words = re.findall(r">([^<>]+)</text>", text)
    assert {"1 connection, window 64", "64 connections", "rmq 0.1", "RocketMQ 5.5.0"} <= set(words)


def test_rows_without_a_measure_are_left_out_of_its_table(found: Comparison) -> None:
    p50 = next(each for each in page.MEASURES if each.key == "p50")
    assert [line[0] for line in page.table_of(found, p50)] == [
        "load", "1 connection, window 64, 20,000/s"
    ]  # fmt: skip
    cpu = page.table_of(found, CPU)
    assert cpu[0] == ["load", "rmq", "RocketMQ", "rmq / RocketMQ"]
    assert (cpu[2][2], cpu[2][3]) == (page.Number(why="it has none"), page.Number())


@pytest.mark.parametrize(
    ("value", "shown"),
    [(412_345.0, "412,000"), (1000.0, "1,000"), (999.6, "1,000"), (57.36, "57.4"), (0.5, "0.5")],
)
def test_three_digits_count(value: float, shown: str) -> None:
    assert page.digits(value) == shown
    assert page.number(Spread(value, value, value)).shown == page.digits(value)


# ------------------------------------------------------------------- README.md


def test_the_table_comes_into_the_readme_and_is_replaced_there(found: Comparison) -> None:
    readme = (ROOT / "README.md").read_text()
    once = page.with_section(readme, page.section(found))
    assert once.count(page.HEADING) == 1
    assert (
        "| 1 connection, window 64 | 412,000/s, 1.21 CPU-s/M, 0.50 busy | "
        "41,000/s, 12.2 CPU-s/M, 0.50 busy |"
    ) in once
    assert "| 64 connections | 100,000/s, 5 CPU-s/M, 0.50 busy | - |" in once
    assert page.with_section(once, page.section(found)) == once
    assert "1024 B" not in once and "All 3 loads" in once  # the rest is on the page
    del found.rows[1]
    other = page.with_section(once, page.section(found))
    assert "| 64 connections |" not in other
    before, after = (
        [each for each in re.findall(r"^## .*$", text, re.MULTILINE) if each != page.HEADING]
        for text in (readme, other)
    )
    assert after == before
    with pytest.raises(ValueError, match="has no heading"):
        page.with_section("# else\n", "x")


def test_a_file_is_made_beside_the_results_the_same_each_time(
    found: Comparison, text: str, tmp_path: Path
) -> None:
    save(found, tmp_path / "peers.json")
    readme = tmp_path / "README.md"
    readme.write_text("# rmq\n\n## What it does not do yet\n")
    made = page.write(tmp_path / "peers.json", readme)
    assert made == tmp_path / "peers.html" and made.read_text() == text
    assert page.HEADING in readme.read_text()


def test_what_the_tree_shows_is_made_of_its_results() -> None:
    readme = page.README.read_text()
    if not page.RESULTS.exists():
        assert page.HEADING not in readme
        return
    assert page.section(page.load(page.RESULTS)) in readme
    assert page.RESULTS.with_suffix(".html").exists()
