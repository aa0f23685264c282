"""`with` takes a lock itself, and never a Condition or a Semaphore: Python code takes those, and an
exception of Ctrl-C may leave them taken (rmq/base/waits.py). For the same reason a thread that
waits in a client is told by a SimpleQueue.

The check finds every name to which one of them is given anywhere, and each `with` of such a name.
The control side of a broker is left out: its main thread is an event loop, in which signals are
events.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from support.source_tree import ROOT, files, parsed, shown, statements_of

INTERRUPTED = re.compile(r"\b(?:threading\.)?(?:Condition|Semaphore|BoundedSemaphore)\b")
TELLING = re.compile(
    r"\bthreading\.(?:Semaphore|BoundedSemaphore|Event|Barrier)\(|\b(?:Future|Queue)\("
)
OF_AN_EVENT_LOOP = re.compile(r"\basyncio\.")


def is_interrupted(node: ast.expr | None) -> bool:
    """Whether the expression makes a Condition or a Semaphore, or as an annotation names one."""
    made = node.func if isinstance(node, ast.Call) else node
    text = ast.unparse(made) if made is not None else ""
    return bool(INTERRUPTED.search(text)) and not OF_AN_EVENT_LOOP.search(text)


def name_of(node: ast.expr) -> str:
    """The last word of an expression: what is given to self._news may be used as puller._news."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def given_names(tree: ast.Module) -> Iterator[str]:
    for node in statements_of(tree):
        if isinstance(node, ast.Assign) and is_interrupted(node.value):
            yield from map(name_of, node.targets)
        elif isinstance(node, ast.AnnAssign):
            if is_interrupted(node.value) or is_interrupted(node.annotation):
                yield name_of(node.target)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            yield from (each.arg for each in every if is_interrupted(each.annotation))


def breaches(tree: ast.Module, names: set[str]) -> Iterator[int]:
    """The line of each `with` that takes a Condition or a Semaphore."""
    for node in statements_of(tree):
        for item in node.items if isinstance(node, ast.With) else ():
            taken = item.context_expr
            is_made_here = isinstance(taken, ast.Call) and is_interrupted(taken)
            if is_made_here or name_of(taken) in names:
                yield taken.lineno


def test_a_with_takes_a_lock_itself() -> None:
    broker = ROOT / "rmq" / "broker"
    texts = {
        path: path.read_text() for path in files(".py", trees=("rmq",))
        if broker not in path.parents
    }  # fmt: skip
    making = [path for path, text in texts.items() if INTERRUPTED.search(text)]
    names = {name for path in making for name in given_names(parsed(path))}
    assert "_news" in names
    found = [
        f"{shown(path)}:{line}"
        for path, text in texts.items()
        if path in making or any(name in text for name in names)
        for line in breaches(parsed(path), names)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "self.news = threading.Condition(threading.RLock())\nwith self.news: ...",
        "self.news = threading.Condition()\nwith puller.news: ...",
        "news: Condition = Condition()\nwith lock, news as held: ...",
        "def wait(*, news: threading.Condition | None) -> None:\n    with news: ...",
        "class Some:\n    def do(self):\n        places = threading.Semaphore(3)\n"
        "        try:\n            with places: ...\n        finally: ...",
        "with threading.BoundedSemaphore(3): ...",
    ],
)
def test_the_check_sees_a_planted_breach(text: str) -> None:
    tree = ast.parse(text)
    assert len(list(breaches(tree, set(given_names(tree))))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "lock = threading.RLock()\nnews = threading.Condition(lock)\nwith lock: news.wait()",
        "async def do():\n    places = asyncio.Semaphore(3)\n    async with places: ...",
    ],
)
def test_the_check_lets_locks_pass(text: str) -> None:
    tree = ast.parse(text)
    assert list(breaches(tree, set(given_names(tree)))) == []


def test_who_waits_in_a_client_is_told_by_a_simple_queue() -> None:
    found = [
        f"{shown(path)}: {told.group()}"
        for path in sorted((ROOT / "rmq" / "client").rglob("*.py"))
        for told in TELLING.finditer(path.read_text())
    ]
    assert found == []


def test_that_check_sees_a_planted_breach() -> None:
    for text in ("told = threading.Semaphore(0)", "threading.Event()", "answer = Future()",
                 "tasks = queue.Queue()"):  # fmt: skip
        assert TELLING.search(text), text
    for text in ("told = SimpleQueue()", "MessageQueue(topic, broker, 0)", "threading.Lock()"):
        assert not TELLING.search(text), text
