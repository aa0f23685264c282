"""The store of a replica is read as it was written: it also contains what Apache's broker accepts
as its master. A core that follows is fed by hand; nothing is broken here."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.fed_slaves import fed_slave
from support.name_server import in_loop

pytest.importorskip("pyarrow", reason="needs the extra: pip install -e .[spark]")

import rmq
from rmq.format.message import StoredMessage, encode_message
from rmq.offline.checker import check_store


@in_loop
async def test_the_last_record_of_one_that_was_stopped_may_end_in_zeros(tmp_path: Path) -> None:
    """The last record of such a store may end in zeros, because Apache's broker stores properties
    as they come, while rmq's broker ends them with a separator."""
    data, starts = b"", []
    for number, properties in enumerate((b"A\1a\2", b"A\1\0")):
        starts.append(len(data))
        data += encode_message(StoredMessage(
            topic="t", body=b"body", properties_bytes=properties, queue_offset=number,
            physical_offset=len(data), store_timestamp_ms=time.time_ns() // 1_000_000,
        ))  # fmt: skip
    one = await fed_slave(tmp_path)
    await one.feed(data)
    await one.stop()
    assert check_store(tmp_path, strict=True).problems == []
    found = rmq.scan_store(tmp_path, threads=1, columns=["physicalOffset"]).read_all()
    assert [int(each) for each in found["physicalOffset"].to_pylist()] == starts
    again = await fed_slave(tmp_path)
    assert again.core.log_range()[1] == len(data)
    await again.stop()
