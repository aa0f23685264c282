"""Console rows: how long a person waits for the web console, and what memory it takes.

`console`: the time of the first page of a console that has just been started, in Chromium, with a
broker that has 1,000 topics and 200 groups: from the click until the page is loaded and something
of it is painted, as the browser measures it. The console's memory is taken after three more pages.

`browse`: the time of a page of messages from a random time on, in a store of 50 M, over HTTP. In
each round the broker is started anew and the kernel has forgotten the store's pages; the slowest
page counts.

Both need modules of tests/support: PYTHONPATH=.:tests.

    outcome = CONSOLE_ROWS["browse"](Bench(root=Path("/tmp/x"), rounds=5))
"""

import random
import time
from typing import Any

from cold import forget, told
from rounds import Outcome, middle
from rows import TOPIC, Bench, Ours, Row, fill, topic_queues

from rmq import Admin
from rmq.load.cpu import resident_bytes

FIRST_PAGE_MS, BROWSE_MS = 300.0, 500.0
MEMORY_MIB = 60.0
PAGES = ("/topics", "/groups", "/")
BROWSED_TIMES = 20  # of a round
BROWSED_COUNT = 20  # messages of a page
BROWSED_BYTES = 64
LOADED = """
const [page] = performance.getEntriesByType("navigation");
const [paint] = performance.getEntriesByName("first-contentful-paint");
return page?.loadEventEnd && paint ? Math.max(page.loadEventEnd, paint.startTime) : 0;
"""


def console(bench: Bench) -> list[Outcome]:
    from support.chromium import chromium
    from support.console_process import console_process
    from support.large_cluster import fill as fill_cluster

    topics, groups = bench.console_topics, bench.console_groups
    title = f"console, {topics:,} topics and {groups} groups"
    first = Outcome("console", f"{title}: first page", FIRST_PAGE_MS, unit=" ms")
    memory = Outcome("console", f"{title}: resident memory", MEMORY_MIB, unit=" MiB")
    later = []
    with bench.ours(name="console") as ours, chromium() as browser:
        fill_cluster(ours.name_server, topics, groups)
        for _ in range(bench.rounds):
            with console_process(bench.root / "page", ours.name_server) as served:
                first.values.append(loaded_ms(browser, served.base + "/"))
                later += [loaded_ms(browser, served.base + path) for path in PAGES]
                memory.values.append(resident_bytes(served.process.pid) / (1 << 20))
                browser.get("about:blank")
    first.notes.append(f"pages after it {min(later):.0f} .. {max(later):.0f} ms")
    first.details = {"later_ms": later}
    return [first, memory]


def loaded_ms(browser: Any, address: str) -> float:
    from support.waiting import wait_until

    browser.get(address)
    found: list[float] = []

    def is_loaded() -> bool:
        found[:] = [float(browser.execute_script(LOADED))]
        return found[0] > 0

    wait_until(is_loaded)
    return found[0]


def browse(bench: Bench) -> Outcome:
    from support.console_process import console_process

    millions = bench.browsed_messages / 1e6
    title = f"messages from a time on, among {millions:g} M: slowest page of {BROWSED_TIMES}"
    outcome = Outcome("browse", title, BROWSE_MS, unit=" ms")
    numbers = random.Random(1)
    medians = []
    bench.body_bytes, body_bytes = BROWSED_BYTES, bench.body_bytes
    try:
        with bench.ours(name="browse") as ours:
            names = topic_queues(ours)
            began = time.time()
            held = fill(bench, ours, names, bench.browsed_messages)
            ended = stored_until(ours)
            for _ in range(bench.rounds):
                ours.stop()
                forget(ours.store)
                before = told(ours.store)
                ours.restart()
                ours.await_ack()
                with console_process(bench.root / "page", ours.name_server) as served:
                    times = [
                        page_ms(served.browser, numbers.uniform(began, ended))
                        for _ in range(BROWSED_TIMES)
                    ]
                outcome.values.append(max(times))
                medians.append(middle(times))
                outcome.details.setdefault("ms", []).append(times)
    finally:
        bench.body_bytes = body_bytes
    outcome.notes += [f"median {middle(medians):.0f} ms", f"{held:,} messages; {before}"]
    return outcome


def stored_until(ours: Ours) -> float:
    """The time, in seconds since 1970, up to which every queue has messages: a page from a later
    time on may be empty, because the producer's process takes some time to end."""
    with Admin(namesrv_addr=ours.name_server) as admin:
        return min(each.last_stored_ms for each in admin.queue_ranges(TOPIC)) / 1e3


def page_ms(browser: Any, moment: float) -> float:
    """Milliseconds until the page with the messages from `moment` on was there; RuntimeError when
    it shows none."""
    began = time.perf_counter()
    asked = {"topic": TOPIC, "from": str(int(moment * 1000)), "count": str(BROWSED_COUNT)}
    answer = browser.get("/messages", **asked)
    took = (time.perf_counter() - began) * 1e3
    shown = answer.text.count('href="/message?')
    if answer.status_code != 200 or not shown:
        raise RuntimeError(f"{answer.status_code}, {shown} messages: {answer.text[:500]}")
    return took


CONSOLE_ROWS: dict[str, Row] = {"console": console, "browse": browse}
