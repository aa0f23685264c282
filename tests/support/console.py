"""Console: a web console in this process, on a port of its own, and a browser without a screen.

    with served_console(ConsoleSettings(broker.namesrv)) as console:
        page = console.get("/topics", part="orders")        an httpx answer
        done = console.change("/topic/create", topic="t", queues="4")
        text_of(page.text)                                  the text that a person sees

Forms are sent as a browser sends them: with the cookie, the token of the page and an Origin.
"""

from __future__ import annotations

import html
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.waiting import HANG_S, wait_until

# Selenium installs trio, which httpx imports if it is there: a tenth of a second in each worker.
_is_first = "trio" not in sys.modules
if _is_first:
    sys.modules["trio"] = None  # type: ignore[assignment]
httpx = pytest.importorskip("httpx", reason="the package httpx is not installed")
if _is_first:
    del sys.modules["trio"]
uvicorn = pytest.importorskip("uvicorn", reason="rmq[console] is not installed")
pytest.importorskip("starlette", reason="rmq[console] is not installed")
pytest.importorskip("jinja2", reason="rmq[console] is not installed")

from rmq.console.server import listen, server_config  # noqa: E402
from rmq.console.settings import ConsoleSettings  # noqa: E402

TOKEN = re.compile(r'name="csrf" value="([0-9a-f]{64})"')
PENDING = re.compile(r'name="pending" value="([\w-]+)"')
# The page that refuses a request, when it looks again by itself: where, and for all of the content.
LOOKS_AGAIN = re.compile(
    'id="live" hx-get="([^"]+)" hx-trigger="every 2s" hx-select="main" hx-target="main" '
    'hx-swap="outerHTML"'
)
NOBODY = "127.0.0.1:1"  # an address at which no name server is


def text_of(page: str) -> str:
    """The text of the page's content, without tags, with single spaces."""
    main = page.partition("<main")[2].partition("</main>")[0].partition(">")[2]
    main = re.sub(r'<p id="away".*?</p>', "", main, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", main)).split())


class Browser:
    """A browser that keeps its cookies and does not follow redirects by itself."""

    def __init__(self, base: str, **options: Any) -> None:
        self.base = base
        self.client = httpx.Client(base_url=base, timeout=HANG_S, **options)

    def get(self, path: str, headers: dict[str, str] | None = None, **parameters: str) -> Any:
        return self.client.get(path, params=parameters or None, headers=headers)

    def post(self, path: str, fields: dict[str, Any], origin: str | None = None) -> Any:
        headers = {"Origin": self.base if origin is None else origin}
        return self.client.post(path, data=fields, headers=headers)

    def token(self, path: str, **parameters: str) -> str:
        """The token of a form on this page."""
        return self.token_of(self.get(path, **parameters))

    def token_of(self, answer: Any) -> str:
        found = TOKEN.search(answer.text)
        assert found is not None, text_of(answer.text)
        return found[1]

    def ask(self, path: str, **fields: Any) -> Any:
        """Fills in a form and sends it. The answer says what would change, or what is wrong."""
        token = self.token("/login")
        return self.post(path, {**fields, "csrf": token})

    def say_yes(self, path: str, asked: Any) -> Any:
        pending = PENDING.search(asked.text)
        assert pending is not None, text_of(asked.text)
        return self.post(path, {"pending": pending[1], "csrf": self.token_of(asked)})

    def change(self, path: str, **fields: Any) -> str:
        """Sends a form and confirms it; returns the text of the page that is shown then."""
        asked = self.ask(path, **fields)
        assert asked.status_code == 200, text_of(asked.text)
        done = self.say_yes(path, asked)
        assert done.status_code == 303, text_of(done.text)
        return text_of(self.get(done.headers["location"]).text)

    def log_in(self, name: str, password: str) -> Any:
        fields = {"name": name, "password": password, "csrf": self.token("/login")}
        return self.post("/login", fields)

    def close(self) -> None:
        self.client.close()


@contextmanager
def served_console(settings: ConsoleSettings) -> Iterator[Browser]:
    """Runs a console with these settings on a free port; yields a browser for it."""
    listening = listen(settings)
    server = uvicorn.Server(server_config(settings))
    thread = threading.Thread(target=server.run, args=([listening],), name="console")
    thread.start()
    try:
        wait_until(lambda: server.started)
        browser = Browser(f"http://127.0.0.1:{listening.getsockname()[1]}")
        try:
            yield browser
        finally:
            browser.close()
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
