"""Goal: an answer leaves when docs/promises.md says, for every request, in both flush modes.

Method: a broker process behind the fault shim, which lets no fdatasync of the log return, or no
fsync of a configuration file. Requests that the table calls durable (offsets, file) must stay
silent meanwhile, and all others must be answered. No time is measured: a request is silent if the
broker has answered what was asked after it. The last tests break the disk, and wait longer than
syncFlushTimeout.
Cannot prove: what a real disk does after a power cut (tests/fault/test_power_cuts.py).
"""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.broker_process import broker_process
from support.faults import Faults
from support.name_server import in_loop
from support.promise_cases import CASES, OPTIONS, World, world
from support.promises import Row, rows
from support.waiting import until

LOG, CONFIG = "/commitlog/", "/config/"
PATIENT = ("--set", "syncFlushTimeout=3600000")
PAGES = bytes(100_000)  # so many that an asynchronous flush comes at once
MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")


@asynccontextmanager
async def served(directory: Path, faults: Faults, mode: str, *options: str) -> AsyncIterator[World]:
    flush = ("--flush", mode.partition("_")[0].lower())
    given = (*flush, "--set", "mappedFileSizeCommitLog=16777216", *OPTIONS, *options)
    with broker_process(directory, given, faults.environment()) as broker:
        try:
            async with world(broker.port) as w:
                yield w
        finally:
            faults.clear()


async def hold_log(w: World, faults: Faults, mode: str) -> None:
    """From now on no fdatasync of the log returns, and one is under way."""
    if mode == "SYNC_FLUSH":  # after one slow sync the reactor leaves syncs to the flusher
        faults.sleep("fdatasync", 100_000, path=LOG)
        assert (await w.tool.send("t")).code == 0
        faults.clear()
    faults.hold("fdatasync", path=LOG)
    w.tool.post_send("t", PAGES)
    await until(lambda: faults.hits(0) > 0)


async def asked(w: World, row: Row) -> int:
    """Sends the request of this row; returns its opaque when the broker has seen it."""
    opaque = await CASES[row.key][0](w)
    await w.fence()
    return opaque


def is_answered(w: World, opaque: int) -> bool:
    return w.tool._replies[opaque].done()


async def well_answered(w: World, row: Row, opaque: int) -> None:
    reply, code = await w.tool.reply(opaque), CASES[row.key][1]
    assert reply.code == code if code is not None else reply.code != 0, (row, reply)


@pytest.mark.parametrize("mode", MODES)
def test_who_waits_for_the_disk_is_as_the_table_says(
    tmp_path: Path, faults: Faults, mode: str
) -> None:
    @in_loop
    async def run() -> None:
        async with served(tmp_path, faults, mode, *PATIENT) as w:
            await hold_log(w, faults, mode)
            silent: dict[int, Row] = {}
            # Offsets come last: the thread that writes their file waits 60 s for the log, then
            # gives up.
            for row in sorted(rows(), key=lambda row: row.words[mode] == "offsets"):
                opaque = await asked(w, row)
                if row.words[mode] in ("durable", "offsets"):
                    silent[opaque] = row
                else:
                    await well_answered(w, row, opaque)
            early = [row for opaque, row in silent.items() if is_answered(w, opaque)]
            assert early == []
            assert len(silent) >= (24 if mode == "SYNC_FLUSH" else 4)
            faults.clear()
            for opaque, row in silent.items():
                await well_answered(w, row, opaque)

    run()


@pytest.mark.parametrize("mode", MODES)
def test_who_waits_for_a_file_is_as_the_table_says(
    tmp_path: Path, faults: Faults, mode: str
) -> None:
    @in_loop
    async def run() -> None:
        async with served(tmp_path, faults, mode, *PATIENT) as w:
            early = []
            for row in rows():
                if row.words[mode] not in ("file", "offsets"):
                    continue
                faults.hold("fsync", path=CONFIG)
                opaque = await asked(w, row)
                await until(lambda: faults.hits(0) > 0)
                await w.fence()
                if is_answered(w, opaque):
                    early.append(row)
                faults.clear()
                await well_answered(w, row, opaque)
            assert early == []

    run()


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_promised_after_a_failed_sync(tmp_path: Path, faults: Faults, mode: str) -> None:
    @in_loop
    async def run() -> None:
        async with served(tmp_path, faults, mode, *PATIENT) as w:
            # One request is under way when the sync fails, the others come after it.
            stored = [row for row in rows() if row.words["SYNC_FLUSH"] in ("durable", "offsets")]
            half = w.halves.pop()
            faults.fail("fdatasync", errno.EIO, path=LOG)
            first = w.tool.post(37, **w.end(half, 8))
            w.tool.post_send("t", PAGES)
            await until(lambda: faults.hits(0) > 0)
            if mode == "SYNC_FLUSH":
                assert (await w.tool.reply(first)).code == 14
            assert (await w.tool.call(37, **w.end(half, 8))).code == 14
            for row in stored:
                reply = await w.tool.reply(await asked(w, row))
                # The producer gets it, but it is in no log, so the consumer is told so.
                if row.code in (324, 325):
                    assert (reply.code, reply.fields["msgId"]) == (0, "0")
                else:
                    assert reply.code in (1, 14), row
            assert faults.seen(0) == 1

    run()


@in_loop
async def test_what_is_not_synced_in_time_is_no_promise_and_may_be_asked_for_again(
    tmp_path: Path, faults: Faults
) -> None:
    async with served(tmp_path, faults, "SYNC_FLUSH", *PATIENT) as w:
        await hold_log(w, faults, "SYNC_FLUSH")
        half = w.halves.pop()
        await w.well(25, b"syncFlushTimeout=400\n")
        # Each waits for the timeout, so all of them are asked at once.
        late = [row for row in rows() if row.words["SYNC_FLUSH"] == "durable"]
        for row, opaque in [(row, await asked(w, row)) for row in late]:
            reply = await w.tool.reply(opaque)
            assert (reply.code, "syncFlushTimeout" in reply.remark) == (10, True), row
        assert (await w.tool.call(37, **w.end(half, 8))).code == 10
        assert (await w.tool.call(37, **w.end(half, 8))).code == 10
        await w.well(25, b"syncFlushTimeout=3600000\n")
        faults.clear()
        assert (await w.tool.call(37, **w.end(half, 8))).code == 0
