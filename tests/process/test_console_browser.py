"""The console in a real browser: parts that refresh themselves, what the keyboard reaches, texts of
strangers, and that the browser asks no other server.

Method: Chromium without a screen, a broker process and a console in this process. With
RMQ_SCREENSHOTS=1 the pictures of docs/images are made anew. Cannot show: other browsers.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.chromium import chromium, requests, said, text
from support.console import Browser, served_console
from support.passage import EMPTIED, Passage
from support.source_tree import ROOT
from support.topics import make_topic
from support.waiting import wait_until

from rmq import Message, Producer
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.reads import read
from rmq.console import page
from rmq.console.answers import Answers
from rmq.console.routes import ROUTES
from rmq.console.settings import ConsoleSettings
from rmq.demo.ports import free_port
from rmq.format.fastjson import MessageQueue

pytest.importorskip("selenium", reason="the package selenium is not installed")

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.browser
EVIL = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
IMAGES = ROOT / "docs" / "images"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("browser")) as process:
        fill(process)
        yield process


@pytest.fixture
def _drawn_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page refreshes itself more often than it does for people."""
    monkeypatch.setitem(page._environment().globals, "every_s", 0.3)


@pytest.fixture(scope="module")
def console(broker: BrokerProcess) -> Iterator[Browser]:
    with served_console(ConsoleSettings(broker.namesrv)) as browser:
        yield browser


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with chromium(has_requests=True) as browser:
        yield browser


@pytest.fixture(autouse=True)
def _nothing_is_amiss(driver: Any) -> Iterator[None]:
    """During the test no script failed, no content policy was breached, and no other server was
    asked."""
    said(driver)
    requests(driver)
    yield
    driver.get("about:blank")
    assert said(driver) == []
    for url in requests(driver):
        assert url.hostname in ("127.0.0.1", None) or url.scheme == "data", url


def fill(broker: BrokerProcess) -> None:
    with Cluster(broker.namesrv) as cluster:
        for topic in ("orders", "payments", "shipments"):
            make_topic(cluster, topic, 2)
        make_topic(cluster, "%DLQ%warehouse", 1)
        for group in ("billing", "warehouse"):
            admin.create_group(cluster, group, {})
        with Producer("shop", namesrv_addr=broker.namesrv) as producer:
            for n in range(60):
                body = json.dumps({"order": n, "amount": n * 3.5, "items": ["tea", "cups"]})
                tag = "paid" if n % 2 else "open"
                producer.send(Message("orders", body, tags=tag, keys=f"order-{n}"))
                producer.send(Message("payments", f"payment {n}"))
        for queue_id in range(2):
            for group, offset in (("billing", 12), ("warehouse", 29)):
                queue = MessageQueue("orders", "broker-a", queue_id)
                admin.commit_offset(cluster, group, queue, offset)


def wait_for(driver: Any, words: str) -> None:
    wait_until(lambda: words in text(driver))


def is_focused(driver: Any, element_id: str) -> bool:
    """Gives the element the focus. Returns False if the page replaced the element meanwhile."""
    with suppress(StaleElementReferenceException):
        driver.find_element(By.ID, element_id).send_keys("")
        return True
    return False


def focused(driver: Any) -> str:
    """The id of what has the focus."""
    return str(driver.execute_script("return document.activeElement.id"))


@pytest.mark.usefixtures("_drawn_soon")
def test_a_page_draws_itself_anew_and_keeps_what_has_the_focus(
    driver: Any, console: Browser, broker: BrokerProcess
) -> None:
    driver.get(console.base + "/topic?topic=shipments")
    wait_for(driver, "0 messages in 2 queues")
    wait_until(lambda: is_focused(driver, "r-broker-a"))  # a link
    before = driver.find_element(By.ID, "live").id
    with Producer("shop", namesrv_addr=broker.namesrv) as producer:
        producer.send(Message("shipments", b"one"))
    wait_for(driver, "1 message in 2 queues")
    assert driver.find_element(By.ID, "live").id != before
    assert focused(driver) == "r-broker-a"
    driver.get(console.base + "/?live=off")
    assert driver.find_element(By.ID, "live").get_attribute("hx-get") is None


@pytest.mark.usefixtures("_drawn_soon")
def test_brokers_that_go_away_are_missed_in_the_page_and_come_back_into_it(
    driver: Any, tmp_path: Path
) -> None:
    ports = ["--namesrv-port", str(free_port()), "--port", str(free_port())]
    namesrv = f"127.0.0.1:{ports[1]}"
    with served_console(ConsoleSettings(namesrv)) as console:
        driver.get(console.base + "/")
        wait_for(driver, "The brokers do not answer")
        with broker_process(tmp_path, ports):
            wait_for(driver, "running")
        wait_for(driver, "The brokers do not answer")
    wait_until(lambda: driver.find_element(By.ID, "away").is_displayed())
    assert "The console does not answer" in text(driver)
    driver.get("about:blank")  # the page asks no more
    assert said(driver)  # a browser logs each request that failed


# What each page is called when all of it is there.
HEADINGS = {
    "/": "Overview",
    "/brokers": "Brokers",
    "/broker?name=broker-a": "Broker broker-a",
    "/topics": "Topics",
    "/topic?topic=orders": "Topic orders",
    "/messages?topic=orders": "Messages of orders",
    "/messages/tail?topic=orders": "orders as it comes",
    "/message?topic=orders&id={id}": "Message of orders",
    "/groups": "Consumer groups",
    "/group?group=billing": "Group billing",
    "/dead-letters": "Dead letters",
    "/dead-letters/group?group=warehouse": "Dead letters of warehouse",
    "/later": "Delayed and pending",
    "/accounts": "Accounts",
    "/audit": "Audit log",
    "/config": "Settings",
    "/topic/update?topic=orders": "Change a topic",
    "/topic/delete?topic=orders": "Delete a topic?",
}
# A member's page is that of a member; the others are files, and lead to their page.
NOT_OPENED = {"/client", "/message/body", "/dead-letters/export"}


def test_all_pages_are_opened_below() -> None:
    assert set(ROUTES) - {path.partition("?")[0] for path in HEADINGS} == NOT_OPENED


@pytest.fixture(scope="module")
def passage(broker: BrokerProcess) -> Iterator[Passage]:
    with Passage(broker.namesrv) as found:
        yield found


@pytest.fixture(scope="module")
def far(passage: Passage) -> Iterator[Browser]:
    """A console behind the passage, which keeps no answers: what is shut is missed at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Answers.__init__, "__defaults__", (0.0,))
        with served_console(ConsoleSettings(passage.address)) as console:
            yield console


def unique_id(broker: BrokerProcess) -> str:
    """That of a message of orders."""
    with Cluster(broker.namesrv) as cluster:
        [first] = read(cluster, MessageQueue("orders", "broker-a", 0), 0, count=1).messages
        return first.properties["UNIQ_KEY"]


def headings(driver: Any) -> list[str]:
    what = "return [...document.querySelectorAll('h1, h2')].map((each) => each.innerText)"
    return list(driver.execute_script(what))


@pytest.mark.usefixtures("_drawn_soon")
@pytest.mark.parametrize("path", HEADINGS)
def test_a_page_that_was_opened_while_brokers_were_away_comes_whole(
    driver: Any, passage: Passage, far: Browser, broker: BrokerProcess, path: str
) -> None:
    asked = path.format(id=unique_id(broker))
    passage.shut()
    driver.get(far.base + asked)
    wait_for(driver, "The brokers do not answer")
    assert driver.title == "No answer · rmq"
    passage.open()
    wait_until(lambda: headings(driver)[:1] == [HEADINGS[path]])
    assert driver.title != "No answer · rmq"
    assert len(driver.find_elements(By.CSS_SELECTOR, "main, #away")) == 2
    assert driver.current_url == far.base + asked
    driver.get("about:blank")  # it asks no more
    assert all("status of 503" in line for line in said(driver))


@pytest.mark.usefixtures("_drawn_soon")
def test_a_live_page_is_whole_again_after_brokers_were_away(
    driver: Any, passage: Passage, far: Browser
) -> None:
    driver.get(far.base + "/")
    wait_until(lambda: "Furthest behind" in headings(driver))
    before = headings(driver)
    passage.shut()
    wait_for(driver, "The brokers do not answer")
    assert headings(driver)[0] == "Overview"
    passage.open()
    wait_until(lambda: headings(driver) == before)
    assert "Stand still" in text(driver)
    driver.get("about:blank")
    assert all("status of 503" in line for line in said(driver))


@pytest.mark.usefixtures("_drawn_soon")
@pytest.mark.parametrize("path", ["/topic?topic=orders", "/broker?name=broker-a"])
def test_a_page_comes_back_after_a_name_server_was_started_again(
    driver: Any, passage: Passage, far: Browser, path: str
) -> None:
    """Before brokers have registered there, it knows neither them nor their topics."""
    driver.get(far.base + path)
    before = headings(driver)
    passage.shut()
    wait_for(driver, "The brokers do not answer")
    passage.open(EMPTIED)
    wait_for(driver, "That cannot be done")
    passage.shut()
    passage.open()
    wait_until(lambda: headings(driver) == before)
    driver.get("about:blank")
    assert said(driver)


def test_messages_come_into_a_tail(driver: Any, console: Browser, broker: BrokerProcess) -> None:
    driver.get(console.base + "/messages/tail?topic=payments")
    wait_for(driver, "Waiting for messages")
    with Producer("shop", namesrv_addr=broker.namesrv) as producer:
        for n in range(3):
            producer.send(Message("payments", f"fresh {n}"))
    for n in range(3):
        wait_for(driver, f"fresh {n}")
    bodies = [each.text for each in driver.find_elements(By.CSS_SELECTOR, "#tail td.body")]
    assert sorted(bodies) == ["fresh 0", "fresh 1", "fresh 2"]


def rows_of_tail(driver: Any) -> list[str]:
    found = "return [...document.querySelectorAll('#tail td:last-child')].map((e) => e.innerText)"
    return list(driver.execute_script(found))


def send_to(broker: BrokerProcess, topic: str, body: str) -> None:
    with Producer("shop", namesrv_addr=broker.namesrv) as producer:
        producer.send(Message(topic, body))


def test_a_tail_goes_on_after_brokers_were_away(
    driver: Any, passage: Passage, far: Browser, broker: BrokerProcess
) -> None:
    driver.get(far.base + "/messages/tail?topic=payments")
    send_to(broker, "payments", "before")
    wait_until(lambda: rows_of_tail(driver) == ["before", "Waiting for messages …"])
    passage.shut()
    wait_until(lambda: "no name server answers" in rows_of_tail(driver)[-1])
    assert rows_of_tail(driver)[:-1] == ["before"]
    assert headings(driver) == ["payments as it comes"]
    send_to(broker, "payments", "meanwhile")
    passage.open()
    wait_until(lambda: rows_of_tail(driver) == ["before", "meanwhile", "Waiting for messages …"])
    driver.get("about:blank")
    assert all("status of 503" in line for line in said(driver))


def test_a_tail_goes_on_after_the_console_was_away(driver: Any, broker: BrokerProcess) -> None:
    """Also where a proxy answers for it meanwhile."""
    settings = ConsoleSettings(broker.namesrv, port=free_port())

    def is_away() -> bool:
        return bool(driver.find_element(By.ID, "away").is_displayed())

    with served_console(settings) as console:
        driver.get(console.base + "/messages/tail?topic=payments")
        send_to(broker, "payments", "before")
        wait_until(lambda: rows_of_tail(driver) == ["before", "Waiting for messages …"])
    wait_until(is_away)
    with bad_gateway(settings.port) as asked:
        wait_until(lambda: len(asked) > 1)
        assert rows_of_tail(driver) == ["before", "Waiting for messages …"]
        assert is_away()
    with served_console(settings):
        send_to(broker, "payments", "after")
        wait_until(lambda: rows_of_tail(driver) == ["before", "after", "Waiting for messages …"])
        assert not is_away()
        driver.get("about:blank")
    assert said(driver)  # a browser tells of each request that failed


@contextmanager
def bad_gateway(port: int) -> Iterator[list[str]]:
    """A proxy whose server is away; yields the paths that it was asked for."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(502)
            self.end_headers()
            self.wfile.write(b"<html><body><h1>502 Bad Gateway</h1></body></html>")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()


def test_what_strangers_write_does_nothing(
    driver: Any, console: Browser, broker: BrokerProcess
) -> None:
    """HTML and scripts in a message's body, tags, keys and properties are shown as text."""
    with Producer("shop", namesrv_addr=broker.namesrv) as producer:
        producer.send(Message("shipments", EVIL, tags=EVIL, keys=EVIL, properties={"p": EVIL}))
    driver.get(console.base + "/messages?topic=shipments")
    wait_for(driver, "onerror")
    assert driver.title == "Messages of shipments · rmq"
    driver.find_element(By.CSS_SELECTOR, "tbody a").click()
    wait_for(driver, "Properties")
    assert driver.title == "Message · rmq"
    assert EVIL in text(driver, "pre")
    driver.get(console.base + "/messages/tail?topic=shipments")
    with Producer("shop", namesrv_addr=broker.namesrv) as producer:
        producer.send(Message("shipments", EVIL))
    wait_for(driver, "onerror")
    assert "taken" not in driver.title
    assert driver.find_elements(By.CSS_SELECTOR, "main img, main script") == []


def test_a_topic_is_made_by_the_keyboard_alone(driver: Any, console: Browser) -> None:
    driver.get(console.base + "/topics")
    body = driver.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert driver.switch_to.active_element.get_attribute("class") == "skip"
    driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert driver.switch_to.active_element.get_attribute("id") == "main"
    driver.switch_to.active_element.send_keys(Keys.TAB)
    assert driver.switch_to.active_element.text == "Create a topic"
    driver.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(driver, "Queues on each broker")
    name = driver.find_element(By.NAME, "topic")
    name.send_keys("by/keyboard", Keys.ENTER)
    wait_for(driver, "characters outside")
    assert all("status of 422" in line for line in said(driver))
    name = driver.find_element(By.NAME, "topic")
    about = name.get_attribute("aria-describedby")
    assert "fault-topic" in about.split()
    assert name.get_attribute("aria-invalid") == "true"
    name.send_keys(Keys.CONTROL, "a")
    name.send_keys("by-keyboard", Keys.ENTER)
    wait_for(driver, "Create a topic?")
    button = driver.find_element(By.CSS_SELECTOR, "main form button")
    assert button.text == "Create it"
    button.send_keys(Keys.ENTER)
    wait_for(driver, "Topic by-keyboard was created")


@pytest.mark.parametrize(
    "path",
    ["/", "/brokers", "/topics", "/topic?topic=orders", "/messages?topic=orders", "/groups",
     "/group?group=billing", "/later", "/config", "/topic/create", "/group/move?group=billing",
     "/acl/put"],
)  # fmt: skip
def test_who_does_not_see_the_page_hears_it(driver: Any, console: Browser, path: str) -> None:
    """Each page has what a screen reader needs: one main heading, landmarks, a name for each
    control, heads of columns."""
    driver.get(console.base + path)
    wait_for(driver, driver.find_element(By.TAG_NAME, "h1").text)
    found = driver.execute_script(
        """
        const all = (what) => [...document.querySelectorAll(what)];
        const named = (each) => each.labels?.length || each.ariaLabel || each.type === "hidden";
        return {
          language: document.documentElement.lang,
          headings: all("h1").length,
          landmarks: ["header", "nav", "main", "footer"].filter((each) => !all(each).length),
          nameless: all("input, select, textarea").filter((each) => !named(each)).map(e => e.name),
          silent: all("a, button").filter((each) => !each.textContent.trim()).length,
          headless: all("table").filter((each) => !each.querySelector("th[scope=col]")).length,
          twice: all("[id]").map((each) => each.id).filter((id, at, ids) => ids.indexOf(id) !== at),
          skipped: all("h2, h3, h4").filter((each) => each.tagName > "H2").length,
        };
        """
    )
    assert found == {
        "language": "en", "headings": 1, "landmarks": [], "nameless": [], "silent": 0,
        "headless": 0, "twice": [], "skipped": 0,
    }  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(driver: Any, console: Browser, scheme: str) -> None:
    """Every text has WCAG's contrast of 4.5 to its background."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    for path in ("/", "/topics", "/config", "/topic/delete?topic=payments", "/topic/create"):
        driver.get(console.base + path)
        poor = driver.execute_script(CONTRAST)
        assert poor == [], path
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 384) == (scheme == "dark")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


CONTRAST = """
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((each) => {
  const part = each / 255;
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}).reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
const ground = (each) => {
  for (let at = each; at; at = at.parentElement) {
    const found = parts(getComputedStyle(at).backgroundColor);
    if (found.length === 3 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
const poor = [];
for (const each of document.querySelectorAll("body *")) {
  const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !each.checkVisibility() || each.closest(".skip, svg, script, option")) continue;
  const [a, b] = [light(parts(getComputedStyle(each).color)), light(ground(each))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push(`${each.tagName}.${each.className}: ${ratio.toFixed(2)}`);
}
return [...new Set(poor)];
"""

PICTURE_BYTES_MIN = 10_000  # an empty page is smaller
PICTURES = {
    "console-overview": "/",
    "console-topic": "/topic?topic=orders",
    "console-messages": "/messages?topic=orders&count=12",
    "console-group": "/group?group=billing",
    "console-confirm": "/topic/delete?topic=payments",
}


def test_pictures_for_the_pages(driver: Any, console: Browser, tmp_path: Path) -> None:
    folder = IMAGES if "RMQ_SCREENSHOTS" in os.environ else tmp_path
    folder.mkdir(exist_ok=True)
    for name, path in PICTURES.items():
        driver.get(console.base + path)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        if path.startswith("/group"):
            wait_until(lambda: driver.find_elements(By.CSS_SELECTOR, "svg.spark"))
        driver.save_screenshot(str(folder / f"{name}.png"))
        assert (folder / f"{name}.png").stat().st_size > PICTURE_BYTES_MIN


def test_the_pages_have_their_pictures() -> None:
    page = (ROOT / "docs" / "console.md").read_text()
    assert {path.stem for path in IMAGES.glob("console-*.png")} == set(PICTURES)
    assert all(f"images/{name}.png" in page for name in PICTURES)
