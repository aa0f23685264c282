"""SQL92 filters: Apache's own evaluator compared with rmq's, and what official clients receive.

The evaluator is the filter jar of Apache RocketMQ 5.5.0. It is asked about thousands of generated
expressions, and about words in any order. There is one difference: Apache's parser drops what
follows a complete expression, and rmq refuses it. Then the two agree about the expression before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from compat.runner import ScenarioRunner
from compat.targets import Target, make_target
from hypothesis import HealthCheck, Phase, given, settings
from support import sql_makers as makers
from support.sql_model import FAILED, evaluate, stored
from support.sql_table import TABLE

from cext.testing.message_probe import Program
from rmq.broker.clients.subscription_filters import NO_CLASS_FILTERS
from rmq.demo.ports import free_port
from rmq.filters.parser import TrailingText, parse
from rmq.filters.program import compile_tree
from rmq.filters.tokens import SqlError

GROWN, SOUP = 8000, 4000
LETTERS: dict[object, str] = {True: "T", False: "F", None: "N", FAILED: "X"}
CLIENTS = ["java-5.5.0-json", "java-5.5.0-binary", "java-4.9.8-json"]
SCENARIOS = ["filter_push", "filter_pull", "filter_lite", "filter_wrong"]

Pair = tuple[str, dict[str, str]]


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS)
def test_java_clients_receive_what_passes(
    client: str,
    scenario: str,
    java: Callable[[str], ScenarioRunner],
    filter_target: Target,
    session_id: str,
) -> None:
    java(client).run(
        scenario,
        nameServer=filter_target.name_server,
        broker=filter_target.broker,
        run=f"{session_id}_{client.replace('.', '')}",
    )


def test_a_java_client_pops_what_passes(
    java: Callable[[str], ScenarioRunner], filter_target: Target, session_id: str
) -> None:
    java("java-5.5.0-json").run(
        "pop_sql_filter",
        nameServer=filter_target.name_server,
        broker=filter_target.broker,
        run=session_id,
    )


def test_the_go_client_receives_what_passes(
    go: ScenarioRunner, filter_target: Target, session_id: str
) -> None:
    go.run(
        "push_sql_filter",
        nameServer=filter_target.name_server,
        broker=filter_target.broker,
        run=session_id,
    )


def grown(count: int, seed_expressions: object) -> list[Pair]:
    """So many pairs, the same in every run."""
    found: list[Pair] = []

    @settings(
        max_examples=count, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    @given(seed_expressions, makers.properties)  # type: ignore[arg-type]
    def collect(expression: str, properties: dict[str, str]) -> None:
        found.append((expression, properties))

    collect()
    return found


def ask_apache(java: Callable[[str], ScenarioRunner], folder: Path, pairs: list[Pair]) -> list[str]:
    questions, answers = folder / "questions", folder / "answers"
    lines = []
    for expression, properties in pairs:
        words = [expression, *(word for pair in properties.items() for word in pair)]
        lines.append("\t".join(quote(word, safe="") for word in words))
    questions.write_text("\n".join(lines) + "\n")
    java("java-5.5.0-json").run("filter_evaluate", input=questions, output=answers)
    return answers.read_text().split()


def ours(expression: str, properties: dict[str, str]) -> str:
    """rmq's answer as a letter of FilterScenarios.evaluate; a + before it: text follows the
    expression."""
    try:
        tree = parse(expression)
    except TrailingText as trailing:
        return "+" + ours(expression[: trailing.position - 1], properties)
    except SqlError:
        return "E"
    result = Program(compile_tree(tree)).result(stored(properties))
    assert result == evaluate(tree, properties), (expression, properties)
    return LETTERS[result]


@pytest.mark.timeout(1800)  # it computes for minutes on a busy machine
def test_the_evaluator_agrees_with_apaches(
    java: Callable[[str], ScenarioRunner], tmp_path: Path
) -> None:
    pairs = [(expression, properties) for expression, properties, _ in TABLE]
    pairs += grown(GROWN, makers.expressions)
    pairs += grown(SOUP, makers.word_soup | makers.spaced_soup)
    theirs = ask_apache(java, tmp_path, pairs)
    assert len(theirs) == len(pairs)
    expected: list[object] = [row[2] for row in TABLE]
    assert theirs[: len(TABLE)] == [LETTERS[each] for each in expected]
    differ = []
    seen = {letter: 0 for letter in "ETFNX+"}
    for (expression, properties), letter in zip(pairs, theirs, strict=True):
        own = ours(expression, properties)
        seen[letter] += 1
        seen["+"] += own.startswith("+")
        if own.lstrip("+") != letter:
            differ.append((expression, properties, letter, own))
    assert differ == []
    assert min(seen.values()) > 100, seen


def test_a_store_that_apache_wrote_with_the_queue_extension_is_filtered_by_tags(
    kind: str, java: Callable[[str], ScenarioRunner], tmp_path: Path, session_id: str
) -> None:
    """With enableConsumeQueueExt a queue entry has no tag code, but a place in another file."""
    store = tmp_path / "store"
    settings = {"enableConsumeQueueExt": "true", "mappedFileSizeCommitLog": str(16 << 20)}
    run = f"{session_id}_ext"
    port = free_port(2, 1)
    writer = make_target("apache", tmp_path / "writer", settings, store=store, port=port)
    reader = make_target(kind, tmp_path / "reader", settings, store=store, port=port)
    try:
        writer.start()
        names = {"run": run, "as": "ext"}
        java("java-5.5.0-json").run(
            "filter_store_fill", nameServer=writer.name_server, broker=writer.broker, **names
        )
        time.sleep(3)  # Apache flushes queues every second
        writer.end("clean")
        writer.stop()
        (queue,) = (store / "consumequeue").glob(f"*{run}_ext_t/0/*")
        code = int.from_bytes(queue.read_bytes()[12:20], "big", signed=True)
        assert code < -(2**31), "this store has no extension"
        reader.start()
        java("java-5.5.0-json").run(
            "filter_store_read", nameServer=reader.name_server, broker=reader.broker, **names
        )
    finally:
        writer.stop()
        reader.stop()


@pytest.mark.parametrize("client", ["java-5.5.0-json", "java-4.9.8-json"])
def test_class_filters_are_refused_in_words_that_name_sql92(
    client: str,
    kind: str,
    java: Callable[[str], ScenarioRunner],
    filter_target: Target,
    session_id: str,
) -> None:
    """The broker runs no code of a client. The refusal names the way out, which the same consumer
    takes."""
    if kind != "rmq":
        pytest.skip("Apache RocketMQ 5.5.0 does not know what class filters were")
    uploads = client.startswith("java-4")
    answer = java(client).run(
        "filter_class",
        nameServer=filter_target.name_server,
        broker=filter_target.broker,
        run=f"{session_id}_{client.replace('.', '')}",
        uploads=str(uploads).lower(),
    )
    ways = ["check", "pull", *(["upload"] if uploads else [])]
    for way in ways:
        assert "CODE: 23" in answer[way], answer
        assert NO_CLASS_FILTERS in answer[way], answer
    assert "SQL92 expression, MessageSelector.bySql" in NO_CLASS_FILTERS
