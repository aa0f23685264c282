"""docs/spark.md has the same options as the tables of the source and the sink."""

import pytest

pytest.importorskip("pyspark", reason="needs the extra: pip install -e .[spark]")

from support.source_tree import ROOT

from rmq.arrow import columns, kafka_rows, rows
from rmq.arrow.options import OF_A_TABLE, TABLE
from rmq.spark import reference


def test_the_page_is_written_from_the_tables() -> None:
    text = (ROOT / "docs" / "spark.md").read_text()
    assert text == reference.page(), "run: python -m rmq.spark.reference > docs/spark.md"


def test_what_is_refused_in_sql_is_said_in_the_words_of_the_error() -> None:
    page = " ".join(reference.page().replace("`", "").split())
    assert f"a table is refused. {OF_A_TABLE}." in page
    guide = (ROOT / "docs" / "spark-guide.md").read_text()
    assert "`CREATE TABLE .. USING rmq` is refused" in guide


def test_every_column_and_option_is_explained() -> None:
    assert reference.READ_ABOUT.keys() == columns.RMQ.keys()
    assert reference.KAFKA_ABOUT.keys() == columns.KAFKA.keys()
    assert reference.WRITE_ABOUT.keys() == rows.COLUMNS.keys()
    assert reference.KAFKA_WRITE_ABOUT.keys() == kafka_rows.COLUMNS.keys()
    page = reference.page()
    assert all(f"| `{option.name}` |" in page for option in TABLE)
    assert all(line.count("|") == line.count(" | ") + 2 for line in page.splitlines()
               if line.startswith("| "))  # fmt: skip
