"""Templates and the files that browsers load: what they must not contain, and that all are packed.

Goal: no template outputs anything that is not escaped, or loads anything from elsewhere. Not shown
here: that pages are right.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.source_tree import ROOT

FOLDER = ROOT / "rmq" / "console"
TEMPLATES = sorted((FOLDER / "templates").glob("*.html"))
STATIC = sorted((FOLDER / "static").iterdir())
FORBIDDEN = {
    "what is not escaped": r"\|\s*safe\b|autoescape|Markup",
    "a script in the page": r"<script(?! src=\"/static/)|\son\w+=|javascript:|hx-on|hx-vals=.js",
    "a style in the page": r"<style|\sstyle=",
    "another site": r"https?://|//[a-z]+\.",
}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_holds_nothing_that_runs_or_leads_away(path: Path) -> None:
    text = re.sub(r"\{#.*?#\}", "", path.read_text(), flags=re.DOTALL)
    assert {name for name, each in FORBIDDEN.items() if re.search(each, text)} == set()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_form_that_is_posted_has_its_token(path: Path) -> None:
    for form in re.findall(r"<form method=\"post\".*?</form>", path.read_text(), re.DOTALL):
        assert "parts.token(csrf)" in form


def test_what_pages_load_is_there_and_nothing_else() -> None:
    text = "".join(path.read_text() for path in TEMPLATES)
    loaded = set(re.findall(r"\"/static/([\w.]+)\"", text))
    assert loaded | {"htmx.LICENSE"} == {path.name for path in STATIC}


def test_all_of_it_is_in_a_wheel() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(r"^rmq = (\[.*\"py\.typed\".*\])$", text, re.MULTILINE)
    assert found is not None
    patterns = re.findall(r"\"([^\"]+)\"", found[1])
    packed = {path for each in patterns for path in (ROOT / "rmq").glob(each)}
    assert packed >= {*TEMPLATES, *STATIC}


def test_the_library_is_whole_and_has_its_licence() -> None:
    script = (FOLDER / "static" / "htmx.min.js").read_text()
    assert re.search(r'version:"2\.\d+\.\d+"', script)
    assert "Zero-Clause BSD" in (FOLDER / "static" / "htmx.LICENSE").read_text()
