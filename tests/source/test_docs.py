"""Pages of docs/ and those that lead there: links, contents, commands, requests, the site."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.case import case
from support.pages import BLOCK, DOCS, pages, pipeline
from support.source_tree import ROOT
from support.waiting import HANG_S

from rmq.broker.requests.handlers import HANDLERS
from rmq.cli.main import cli
from rmq.codes import RequestCode
from rmq.generate.alerts import DOCS as RUNBOOKS
from rmq.generate.alerts import RULES
from rmq.namesrv.requests import _table as namesrv_table

LINK = re.compile(r"\]\(([^)\s]+)\)")
INLINE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"`((?:cext|rmq|shards|tests|tools|bench|docs)/[\w/.-]+?)`")
TREE_PAGES = [page for page in pages() if page.name != "CHANGELOG.md"]


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def without_blocks(text: str) -> str:
    return BLOCK.sub("", re.sub(r"^(?: {4}.*\n)+", "", text, flags=re.MULTILINE))


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings: small letters, no signs, blanks as dashes."""
    heads = re.findall(r"^#+ (.+)$", without_blocks(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target in LINK.findall(without_blocks(page.read_text())):
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.is_file(), target
        assert not anchor or anchor in anchors(file), target


def test_alerts_lead_to_pages_and_headings() -> None:
    for rule in RULES:
        name, _, anchor = rule.heading.partition("#")
        assert not name or anchor in anchors(ROOT / RUNBOOKS / name), rule.name


@pytest.mark.parametrize("page", TREE_PAGES, ids=shown)
def test_files_and_folders_that_pages_name_are_there(page: Path) -> None:
    for path in PATH.findall(page.read_text()):
        forms = [ROOT / path, *(ROOT / f"{path}{ending}" for ending in (".pxd", ".pyx", ".py"))]
        assert any(form.exists() for form in forms), path


def listed(page: Path) -> set[Path]:
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return {
        page.parent / f"{line}.md"
        for block in blocks
        for line in block.splitlines()
        if line and not line.startswith(":")
    }


def test_every_page_is_in_the_table_of_contents_once() -> None:
    index = DOCS / "index.md"
    assert listed(index) | {index} == set(DOCS.rglob("*.md"))


def commands(page: Path) -> Iterator[str]:
    """Each `rmq ..` that the page shows: in blocks of text and between back quotes."""
    text = page.read_text()
    for kind, block in BLOCK.findall(text):
        if kind in {"sh", "text"}:
            yield from (line for line in block.splitlines() if line.startswith("rmq "))
    for span in INLINE.findall(without_blocks(text)):
        if span.startswith("rmq "):
            yield " ".join(span.split())


@pytest.mark.parametrize("page", TREE_PAGES, ids=shown)
def test_every_command_that_is_shown_exists_with_its_options(page: Path) -> None:
    for command in sorted(set(commands(page))):
        line = re.split(r"\s{3,}|\s#\s", command)[0]  # an explanation may follow
        with case(command):
            for words in pipeline(line):
                check_options(words[1:])


def test_commands_are_found_in_blocks_and_in_sentences() -> None:
    """There are some 260 commands, and fewer of either kind alone."""
    assert sum(len(set(commands(page))) for page in TREE_PAGES) > 200


def check_options(words: list[str]) -> None:
    found: click.Command = cli
    context = click.Context(cli, info_name="rmq")
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        if found.invoke_without_command and found.get_command(context, words[0]) is None:
            break
        found_next = found.get_command(context, words[0])
        assert found_next is not None, f"no command {words[0]}"
        found, words = found_next, words[1:]
    parameters = found.get_params(context)
    known = {option for each in parameters for option in (*each.opts, *each.secondary_opts)}
    known |= {"--help", "-h"}
    for word in words:
        if word.startswith("-") and word != "-" and not word.lstrip("-").isdigit():
            assert word.partition("=")[0] in known, f"{found.name} has no {word}"


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", TREE_PAGES, ids=shown)
def test_what_is_shown_of_make_is_there(page: Path) -> None:
    for span in INLINE.findall(without_blocks(page.read_text())):
        if span.startswith("make "):
            assert span.split()[1] in make_targets(), span


def section(page: Path, heading: str) -> str:
    return page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_protocol_page_has_a_row_for_each_request_of_a_broker() -> None:
    text = section(DOCS / "protocol.md", "Requests to a broker")
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (.+) \|$", text, re.MULTILINE)
    assert sorted(int(code) for code, _, _ in rows) == sorted(HANDLERS)
    for code, name, _ in rows:
        assert RequestCode(int(code)).name == name
    router = (ROOT / "cext/flow/request_router.pyx").read_text()
    reactor = {int(RequestCode[name]) for name in re.findall(r"RequestHandler\((\w+),", router)}
    assert {int(code) for code, _, by in rows if by.startswith("reactor")} == reactor
    for code, _, by in rows:
        handler = HANDLERS[int(code)]
        assert handler.__module__.rpartition(".")[2] in by, code


def test_the_protocol_page_has_each_request_of_a_name_server() -> None:
    text = section(DOCS / "protocol.md", "Requests to a name server")
    firsts = re.findall(r"^\| ([\d, ]+) \|", text, re.MULTILINE)
    codes = {int(code) for first in firsts for code in first.split(",")}
    assert codes == set(namesrv_table.codes)


def test_the_readme_is_short_and_architecture_a_map() -> None:
    for name in ("README.md", "ARCHITECTURE.md"):
        assert len((ROOT / name).read_text().splitlines()) <= 150


# Sphinx makes millions of nodes and drops none before its end, so no garbage is collected.
# Typographic quotes are not made: they would be looked for in each node, and cannot be wrong.
SPHINX = """
import gc, sys
gc.disable()
from sphinx.cmd.build import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module)
    done = subprocess.run(
        [sys.executable, "-c", SPHINX, "-q", "-W", "--keep-going", "-b", "html",
         "-D", "smartquotes=0", str(DOCS), str(tmp_path)],
        capture_output=True, text=True, timeout=HANG_S, env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").is_file()


def test_what_builds_the_site_is_installed_by_make_test() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    extra = re.search(r'^dev = \[\n\s*"rmq\[(.*?)\]"', text, re.MULTILINE)
    assert extra is not None
    assert "docs" in extra[1].split(",")
