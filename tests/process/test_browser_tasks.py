"""docs/tasks.md in a browser: each task of the console is done by the steps of its row alone.

Method: Chromium without a screen begins at the console's first page, and takes one step for each
name in the row: a click, a choice, or a field that is filled in. As the page says, logging in and
saying yes are no steps. There are one broker with accounts, an audit file, a member of the group,
dead letters and a traced message, and one console and one browser for all tasks. Cannot show:
whether a person finds these steps, and how many steps other consoles need.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from subprocess import CompletedProcess
from typing import Any
from unittest.mock import patch

import pytest
from support.broker_process import broker_process
from support.chromium import chromium, said, text
from support.command_line import rmq
from support.console import served_console
from support.day_tasks import ACCOUNTS, BROWSER, NAME, PASSWORD, ailing_group, browser_steps
from support.topics import make_topic
from support.waiting import wait_until

from rmq import Admin
from rmq.console.page import SECTIONS
from rmq.console.settings import ConsoleSettings

pytest.importorskip("selenium", reason="the package selenium is not installed")

from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By

pytestmark = pytest.mark.browser
BAD = 2  # messages that the group gives up
# A text in the row of the list in which the person clicks, for each task.
LINES = {4: "orders", 5: "orders", 11: "orders", 12: "order-8", 15: "orders", 16: "orders",
         17: "old"}  # fmt: skip
VALUES = {
    "Topic": "orders", "Key": "order-7", "From": "-1h", "To": "-1h", "Body": "hello",
    "Queues": "4", "read": "16", "write": "16", "Setting": "fileReservedTime", "Value": "48",
    "Text": "fileReservedTime",
}  # fmt: skip
NAMES = {14: "payments", 15: "orders-2"}  # what new topics are called
# What the page says at the end of each task.
SAYS = {
    1: "running", 2: "Last consumed", 3: "as it says itself", 4: "was moved in topic orders",
    5: "was moved in topic orders", 6: "fine", 7: "billing", 8: "consumed", 9: "fine",
    10: "Waiting for messages", 11: "Sent: SEND_OK", 12: "1 dead letter of billing went out again",
    13: "of billing went out again", 14: "Topic payments was created",
    15: "Topic orders-2 was created", 16: "Topic orders was changed", 17: "Topic old was deleted",
    19: "fileReservedTime=48 holds on", 20: "UPDATE_BROKER_CONFIG",
}  # fmt: skip


class Person:
    """Looks at the pages, clicks and types; every step is counted."""

    def __init__(self, driver: Any, base: str, message_id: str) -> None:
        self.driver = driver
        self.base = base
        self.links = {
            "*billing*": "//main//a[normalize-space()='billing']",
            "*orders*": "//main//a[normalize-space()='orders']",
            "*member*": "//main//a[starts-with(@id, 'c-')]",
            "*message*": "//main//tbody//a",
        }
        self.values = {**VALUES, "Unique key": message_id}
        self.steps = 0

    def text(self) -> str:
        return text(self.driver)

    def open(self, path: str) -> None:
        self.driver.get(self.base + path)

    def log_in(self) -> None:
        self.open("/")
        for field, words in (("name", NAME), ("password", PASSWORD)):
            self.driver.find_element(By.ID, field).send_keys(words)
        self.click("//main//button")
        wait_until(lambda: "Overview" in self.text())

    def click(self, path: str) -> None:
        """Clicks, and waits for the next page."""
        before = self.driver.find_element(By.TAG_NAME, "html").id

        def clicked() -> bool:
            try:
                self.driver.find_element(By.XPATH, path).click()
            except (NoSuchElementException, StaleElementReferenceException):
                return False
            return True

        def is_there() -> bool:
            try:
                page = self.driver.find_element(By.TAG_NAME, "html").id
            except (NoSuchElementException, StaleElementReferenceException):
                return False
            ready = self.driver.execute_script("return document.readyState")
            return bool(page != before and ready == "complete")

        wait_until(clicked)
        wait_until(is_there)

    def fill(self, field: Any, text: str) -> None:
        field.clear()
        field.send_keys(text)

    def field(self, name: str) -> Any | None:
        """The field with this label, or with a label that begins with this word, or else with this
        name in the form."""
        labels = self.driver.find_elements(By.XPATH, "//main//label[@for]")
        words = [(each.text.strip(), each.get_attribute("for")) for each in labels]
        ids = [field for text, field in words if text == name]
        ids += [field for text, field in words if text.startswith(f"{name} ")]
        found = self.driver.find_elements(By.CSS_SELECTOR, f"main [name^='{name}_']")
        return self.driver.find_element(By.ID, ids[0]) if ids else next(iter(found), None)

    def step(self, name: str, line: str | None) -> None:
        """line: a text in the row of a list in which the person clicks."""
        self.steps += 1
        if name in self.links:
            self.click(self.links[name])
        elif name in {section for _, section, _ in SECTIONS}:
            self.click(f"//header//nav//a[normalize-space()='{name}']")
        elif name in self.values and (field := self.field(name)) is not None:
            self.fill(field, self.values[name])
        else:
            self.click(self.control(name, line))

    def control(self, name: str, line: str | None) -> str:
        """The path of a button with this name, of a link in the row, or of any link whose text
        begins with the name."""
        in_row = f"//main//tr[.//*[normalize-space()='{line}']]//a[normalize-space()='{name}']"
        paths = [f"//main//button[normalize-space()='{name}']", in_row,
                 f"//main//a[starts-with(normalize-space(), '{name}')]"]  # fmt: skip
        wait_until(lambda: any(self.driver.find_elements(By.XPATH, path) for path in paths))
        return next(path for path in paths if self.driver.find_elements(By.XPATH, path))

    def say_yes(self) -> None:
        """Clicks the last button, if the page shows what would happen and asks whether to do it."""
        if self.driver.title.endswith("? · rmq"):
            self.click("//main//form//button")


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    folder = tmp_path_factory.mktemp("browser-tasks")
    options = (*ACCOUNTS, "--set", f"rmqAuditLog={folder / 'audit.log'}")
    with ExitStack() as stack:
        driver = stack.enter_context(chromium())
        broker = stack.enter_context(broker_process(folder, options))
        stack.enter_context(patch.dict(os.environ, NAMESRV_ADDR=broker.namesrv))
        given = {"namesrv_addr": broker.namesrv, "access_key": NAME, "secret_key": PASSWORD}
        with Admin(**given) as admin:
            make_topic(admin, "orders", 2)
            make_topic(admin, "old", 1)
        done("config", "set", "fileReservedTime=60", "--yes")  # for the audit log
        sent = stack.enter_context(ailing_group(given, BAD, dead_letters))
        message_id = str(sent.message_id)
        for words in (["trace", message_id], ["message", "show", message_id, "orders"]):
            wait_until(lambda words=words: told(*words).returncode == 0)
        console = stack.enter_context(served_console(ConsoleSettings(broker.namesrv)))
        made = Person(driver, console.base, message_id)
        made.log_in()
        said(driver)
        yield made


def told(*words: str) -> CompletedProcess[str]:
    """Runs a command with the account that the person logs in with. The account is in the
    environment only meanwhile, so that the console has it from the login alone."""
    with patch.dict(os.environ, RMQ_ACCESS_KEY=NAME, RMQ_SECRET_KEY=PASSWORD):
        return rmq(*words)


def done(*words: str) -> str:
    result = told(*words)
    assert result.returncode == 0, (words, result.stdout, result.stderr)
    return result.stdout


def dead_letters() -> int:
    return sum(row["dead_letters"] for row in json.loads(done("dlq", "list", "--json")))


def queues_read(topic: str) -> int:
    [row] = [row for row in json.loads(done("topic", "list", "--json")) if row["topic"] == topic]
    return int(row["read_queues"])


def comes_by_itself(person: Person) -> bool:
    return bool(done("send", "orders", "just now")) and "just now" in person.text()


def is_gone(person: Person) -> bool:
    return "old" not in {row["topic"] for row in json.loads(done("topic", "list", "--json"))}


# What else must hold at the end of a task.
HOLDS: dict[int, Callable[[Person], bool]] = {
    10: comes_by_itself,
    14: lambda _: queues_read("payments") > 0,
    15: lambda _: queues_read("orders-2") == 4,
    16: lambda _: queues_read("orders") == 16,
    17: is_gone,
    19: lambda _: "48" in done("config", "get", "fileReservedTime"),
}
TASKS = [(number, steps) for number, row in enumerate(BROWSER, 1)
         if (steps := browser_steps(row[0])) is not None]  # fmt: skip


def test_every_task_of_the_console_is_tried() -> None:
    assert set(SAYS) == {number for number, _ in TASKS}


@pytest.mark.parametrize(("number", "steps"), TASKS, ids=lambda each: str(each)[:2])
def test_a_task_takes_the_steps_of_its_row(person: Person, number: int, steps: list[str]) -> None:
    person.open("/")
    person.values["Name"] = NAMES.get(number, "")
    person.steps = 0
    for name in steps:
        person.step(name, LINES.get(number))
    person.say_yes()
    wait_until(lambda: SAYS[number] in person.text())
    if number in HOLDS:
        wait_until(lambda: HOLDS[number](person))
    assert person.steps == len(steps)
    assert said(person.driver) == []
