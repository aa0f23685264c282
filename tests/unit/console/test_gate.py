"""The gate: what it refuses, over every route of the console; here nothing but the gate answers.

Goal: no page and no change is reached past the gate. Method: a console over a socket whose brokers
are away, so that what the gate lets through is seen as "no answer". Not shown here: that browsers
keep to the headers; tests/process/test_console_browser.py looks at one.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import pytest
from support.console import LOOKS_AGAIN, NOBODY, Browser, served_console, text_of

from rmq.console import csrf
from rmq.console.gate import BODY_BYTES_MAX
from rmq.console.routes import CHANGES, ROUTES
from rmq.console.settings import ConsoleSettings

PAGES = sorted(ROUTES)
FORMS = sorted(change.path for change in CHANGES)
METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


@pytest.fixture(scope="module")
def console() -> Iterator[Browser]:
    with served_console(ConsoleSettings(NOBODY)) as browser:
        yield browser


@pytest.fixture(scope="module")
def reader() -> Iterator[Browser]:
    with served_console(ConsoleSettings(NOBODY, read_only=True)) as browser:
        yield browser


@pytest.fixture(scope="module")
def closed() -> Iterator[Browser]:
    with served_console(ConsoleSettings(NOBODY, needs_login=True)) as browser:
        yield browser


@pytest.mark.parametrize("path", [*PAGES, *FORMS, "/login", "/nothing", "/static/console.css"])
def test_every_answer_keeps_what_it_shows_from_running(console: Browser, path: str) -> None:
    headers = console.get(path).headers
    policy = dict(each.strip().partition(" ")[::2] for each in
                  headers["content-security-policy"].split(";"))  # fmt: skip
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-cache" if path.startswith("/static") else "no-store")
    assert headers["rmq-console"] == "yes"
    assert "server" not in headers


@pytest.mark.parametrize("path", [*PAGES, *FORMS])
def test_no_page_has_a_script_or_a_style_of_its_own(console: Browser, path: str) -> None:
    page = console.get(path).text
    assert page.count("<script") == page.count('<script src="/static/') == 2
    assert "<style" not in page
    assert " style=" not in page
    assert not [word for word in page.split() if word.lower().startswith(("onclick=", "onload="))]


@pytest.mark.parametrize("path", [*PAGES, *FORMS, "/static/console.css", "/nothing"])
def test_read_only_refuses_whatever_could_change_something(reader: Browser, path: str) -> None:
    fields, headers = {"csrf": reader.token("/login")}, {"Origin": reader.base}
    for method in METHODS:
        answer = reader.client.request(method, path, data=fields, headers=headers)
        assert answer.status_code in ((404, 405) if path.startswith("/static") else (403,)), method
        if not path.startswith("/static") and method != "HEAD":
            assert "--read-only" in text_of(answer.text)


@pytest.mark.parametrize("path", FORMS)
def test_read_only_shows_no_form_of_a_change(reader: Browser, path: str) -> None:
    """Pages must not lead to such a form either: tests/process/test_console_states.py, where
    brokers answer."""
    assert reader.get(path).status_code == 403


@pytest.mark.parametrize("path", FORMS)
def test_a_change_needs_the_token_of_this_browser(console: Browser, path: str) -> None:
    for token in ("", "0" * 64, "\u00e4" * 64):
        answer = console.post(path, {"csrf": token})
        assert answer.status_code == 403
        assert "another session" in text_of(answer.text)
    other = Browser(console.base)
    assert console.post(path, {"csrf": other.token("/login")}).status_code == 403
    assert console.post(path, {"topic": "t"}).status_code == 403
    other.close()


@pytest.mark.parametrize("path", [*FORMS, "/login", "/logout"])
def test_a_change_comes_from_a_page_of_this_console(console: Browser, path: str) -> None:
    fields = {"csrf": console.token("/login")}
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", console.base + "0"):
        answer = console.post(path, fields, origin=origin)
        assert answer.status_code == 403, origin
        assert "it comes from a page of" in text_of(answer.text)
    silent = console.client.post(path, data=fields)
    assert silent.status_code == 403
    assert "does not say from which page" in text_of(silent.text)
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
                    {"Referer": "https://evil.example/x"}):  # fmt: skip
        assert console.client.post(path, data=fields, headers=headers).status_code == 403


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "same-origin"}, {"Referer": "{base}/x"}])
def test_what_browsers_without_an_origin_say_will_do(
    console: Browser, headers: dict[str, str]
) -> None:
    said = {name: text.format(base=console.base) for name, text in headers.items()}
    answer = console.client.post(
        "/topic/create", data={"csrf": console.token("/login")}, headers=said
    )
    assert answer.status_code == 422  # the form itself is checked


@pytest.mark.parametrize("path", [*PAGES, *FORMS])
def test_who_has_to_log_in_sees_nothing_before(closed: Browser, path: str) -> None:
    answer = closed.get(path, a="1")
    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"/login?next={path}%3Fa%3D1")
    polled = closed.get(path, headers={"HX-Request": "true"})
    assert polled.status_code == 401
    assert polled.headers["hx-redirect"].startswith("/login")
    fields = {"csrf": closed.token("/login")}
    assert closed.post(path, fields).status_code == 303
    assert "<nav" not in closed.get("/login").text


@pytest.mark.parametrize("path", ["/topics", "/topic/create"])
def test_the_path_that_is_judged_is_the_one_whose_page_answers(
    closed: Browser, reader: Browser, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The gate must judge the path whose page answers, not the path of a URL made with the Host
    header, as older starlettes have it."""
    from starlette.datastructures import URL
    from starlette.requests import Request

    static = property(lambda request: URL(f"http://localhost/static/{request.scope['path']}"))
    fields, headers = {"csrf": reader.token("/login")}, {"Origin": reader.base}
    monkeypatch.setattr(Request, "url", static)
    asked = closed.get(path, a="1")
    assert asked.status_code == 303
    assert asked.headers["location"] == f"/login?next={path}%3Fa%3D1"
    assert asked.headers["cache-control"] == "no-store"
    assert reader.client.post(path, data=fields, headers=headers).status_code == 403


def test_nobody_elses_name_leads_to_a_console_on_loopback(console: Browser) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::2]", "", "[x"):
        answer = console.client.get("/login", headers={"Host": host})
        assert answer.status_code in (400, 421), host
    for host in ("localhost/static/", "localhost?", "localhost:80#x", "localhost/x@127.0.0.1"):
        answer = console.client.get("/login", headers={"Host": host})
        assert answer.status_code in (400, 421), host
    for host in ("localhost", "127.0.0.1:9", "[::1]:8080"):
        assert console.client.get("/login", headers={"Host": host}).status_code == 200


def test_a_console_behind_a_proxy_knows_its_name_and_keeps_cookies_for_https() -> None:
    settings = ConsoleSettings(
        NOBODY, origin="https://rmq.example", hosts=("127.0.0.1", "rmq.example")
    )
    with served_console(settings) as browser:
        answer = browser.client.get("/login", headers={"Host": "rmq.example"})
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-rmq-console=")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax; Secure")
        headers = {
            "Host": "rmq.example", "Origin": "https://rmq.example",
            "Cookie": cookie.partition(";")[0],
        }  # fmt: skip
        fields = {"csrf": browser.token_of(answer)}
        sent = browser.client.post("/topic/create", data=fields, headers=headers)
        assert sent.status_code == 422


def test_the_cookie_is_hidden_from_scripts_and_made_anew_where_it_is_none(console: Browser) -> None:
    answer = Browser(console.base).get("/login")
    assert answer.headers["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Lax")
    for bad in ("x", "a" * 44, "\u00e4" * 43):
        again = Browser(console.base)
        asked = again.client.get("/login", headers={"Cookie": f"rmq-console={bad}".encode()})
        assert "set-cookie" in asked.headers
    assert "set-cookie" not in console.get("/login").headers


def test_what_csrf_says_of_the_cookie_is_so(console: Browser) -> None:
    (said,) = re.findall(r"SameSite=\w+", csrf.__doc__ or "")
    assert said in Browser(console.base).get("/login").headers["set-cookie"].split("; ")


def test_a_form_is_bounded_and_of_one_kind(console: Browser) -> None:
    headers = {"Origin": console.base}
    large = console.client.post(
        "/topic/create", content=b"a=" + b"x" * BODY_BYTES_MAX,
        headers={**headers, "Content-Type": "application/x-www-form-urlencoded"},
    )  # fmt: skip
    assert large.status_code == 413
    many = {f"f{number}": "" for number in range(3000)}
    assert console.client.post("/topic/create", data=many, headers=headers).status_code == 400
    for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain"):
        asked = console.client.post(
            "/topic/create", content=b"{}", headers={**headers, "Content-Type": kind}
        )
        assert asked.status_code == 415, kind


# Pages that say what they are about; another one is asked for without parameters.
ASKED = {
    "/message": "id=7F00000100002A9F0000000000000061",
    "/message/body": "id=7F00000100002A9F0000000000000061",
    "/messages": "topic=t&topic=u",
    "/dead-letters/group": "group=g",
    "/dead-letters/export": "group=g",
    "/topic/update": "topic=t",
}
FILES = {"/message/body": "/message", "/dead-letters/export": "/dead-letters/group"}


@pytest.mark.parametrize("path", [*sorted(set(PAGES) - {*FILES}), "/topic/update"])
def test_a_page_whose_brokers_are_away_says_so_and_looks_again(console: Browser, path: str) -> None:
    """At its own URL, for all of the content, which is in every page."""
    asked = "?".join(filter(None, (path, ASKED.get(path))))
    answer = console.client.get(asked)
    assert answer.status_code == 503
    assert "no name server answers" in text_of(answer.text)
    found = LOOKS_AGAIN.search(answer.text)
    assert found is not None
    assert html.unescape(found[1]) == asked
    assert re.findall("<main[ >]", answer.text) == ["<main "]


def test_a_tail_whose_brokers_are_away_says_so_in_a_row_that_asks_again(console: Browser) -> None:
    asked = {"topic": "t", "tag": "a", "seen": '{"broker-a/0":7}', "shown": "3"}
    answer = console.get("/messages/tail", **asked)
    assert answer.status_code == 503
    [row] = re.findall("<tr.*?</tr>", answer.text, re.DOTALL)
    assert answer.text.strip() == row
    assert "no name server answers" in row
    found = re.search('hx-get="([^"]+)" hx-trigger="every 1s"', row)
    assert found is not None
    assert dict(parse_qsl(urlsplit(html.unescape(found[1])).query)) == asked


@pytest.mark.parametrize(("path", "shown"), FILES.items())
def test_a_file_that_cannot_be_had_leads_to_its_page_which_looks_again(
    console: Browser, path: str, shown: str
) -> None:
    answer = console.client.get(f"{path}?{ASKED[path]}")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{shown}?{ASKED[path]}"


def test_a_change_that_nobody_answered_is_not_asked_for_again(console: Browser) -> None:
    """Nor is its form, without what was typed in, shown in place of what became of it."""
    fields = {"csrf": console.token("/login"), "topic": "t"}
    answer = console.post("/topic/delete", fields)
    assert answer.status_code == 503
    assert "hx-get" not in answer.text
    assert "It may have been done, or a part of it" in text_of(answer.text)
