"""Page: writes the reference page, and the keywords, from the classes of parameters.

    python -m rmq.client.parameters > docs/client-parameters.md
    python -m rmq.client.parameters keywords > rmq/client/parameters/keywords.py

Tests compare both with the files.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

from rmq.client.parameters.base import ClientParameters, java_name
from rmq.client.parameters.consumer import (
    PopConsumerParameters,
    PullConsumerParameters,
    PushConsumerParameters,
)
from rmq.client.parameters.producer import ProducerParameters, TransactionProducerParameters

# The classes of the page, in its order. A class between them is shown with each of its subclasses.
TABLES: tuple[type[ClientParameters], ...] = (
    ClientParameters, ProducerParameters, TransactionProducerParameters,
    PushConsumerParameters, PullConsumerParameters, PopConsumerParameters,
)  # fmt: skip


def rows(of: type[ClientParameters]) -> list[tuple[str, str, str, str]]:
    """(name, name in Java, default, meaning) of each parameter that `of` adds to its base."""
    return [
        (each.name, each.metadata["java"] or java_name(each.name), f"{each.default!r}",
         each.metadata["text"]) for each in own_fields(of)
    ]  # fmt: skip


def base_of(of: type[ClientParameters]) -> type[ClientParameters] | None:
    """The class of the page to which `of` adds parameters."""
    return next((each for each in of.__mro__[1:] if each in TABLES), None)


def own_fields(of: type[ClientParameters]) -> list[dataclasses.Field[Any]]:
    """The parameters that `of` adds to its base."""
    base = base_of(of)
    inherited = {each.name for each in dataclasses.fields(base)} if base is not None else set()
    return [each for each in dataclasses.fields(of) if each.name not in inherited]


def page() -> str:
    """The reference page, as Markdown."""
    lines = ["# Parameters of the Python client", "", PAGE_HEAD, ""]
    for of in TABLES:
        lines += [f"## {of.__name__}", "", of.__doc__ or "", ""]
        lines += ["| parameter | RocketMQ's name | default | meaning |", "|---|---|---|---|"]
        for name, java, default, text in rows(of):
            lines.append(
                f"| `{name}` | {java} | `{default}` | {text.replace('|', chr(92) + '|')} |"
            )
        lines.append("")
    lines += ["## Message", "", "What one sends; all but the first four are keywords.", ""]
    lines += ["| argument | RocketMQ's name | default | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {java} | `{default}` | {text} |" for name, java, default, text in MESSAGE
    ]
    return "\n".join(lines)


MESSAGE = (
    ("topic", "Topic", "-", "where it goes; 1 to 127 letters, digits, %, \\|, - and _"),
    ("body", "Body", "-", "bytes, or text that is sent as UTF-8; not empty"),
    ("tags", "Tags", "None", "one tag, which brokers filter by"),
    ("keys", "Keys", "None", "what it is found by: text with blanks between, or a list"),
    ("properties", "Properties", "None", "names and values of the user's own"),
    ("flag", "Flag", "0", "a number of the user's own"),
    ("delay_level", "DelayTimeLevel", "0", "1 to 18: 1s 5s 10s 30s 1m .. 10m 20m 30m 1h 2h"),
    ("delay_seconds", "DelayTimeMs", "None", "delayed by so long, to the millisecond"),
    ("deliver_at", "DeliverTimeMs", "None", "delayed until then: a datetime, or ms since 1970"),
    ("sharding_key", "ShardingKey", "None", "equal keys go to one queue and keep their order"),
    ("wait_store_msg_ok", "WaitStoreMsgOK", "True", "answered when it is as safe as the broker "
     "promises; False: when it is written, which survives a kill of the broker and no power cut"),
)  # fmt: skip


PAGE_HEAD = """Written by `python -m rmq.client.parameters` from the classes beside that module.
Times are milliseconds, sizes bytes, unless the text says otherwise. All are keywords of the class
they belong to: `Producer("group", send_msg_timeout=1000)`."""


# Arguments of the classes, which are therefore not among their keywords.
ARGUMENTS = ("producer_group", "consumer_group", "message_listener", "transaction_listener")

KEYWORDS_HEAD = '''\
"""The parameters as keywords, for type checkers: `Producer("g", send_msg_timeout=1000)`.

Written by `python -m rmq.client.parameters keywords` from the classes beside it; a test compares
the two. Nothing imports it at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from rmq.client.parameters.hooks import RpcHook
'''


def keywords() -> str:
    """The text of keywords.py: a TypedDict for each class of parameters."""
    lines = [KEYWORDS_HEAD]
    for of in TABLES:
        base = base_of(of)
        bases = "TypedDict" if base is None else _keywords_of(base)
        head = f"class {_keywords_of(of)}({bases}, total=False):"
        lines += ["", head, f'    """{of.__doc__}"""', ""]
        own = [each for each in own_fields(of) if each.name not in ARGUMENTS]
        lines += [f"    {each.name}: {each.type}" for each in own]
        lines.append("")
    return "\n".join(lines).rstrip("\n")


def _keywords_of(of: type) -> str:
    return of.__name__.replace("Parameters", "Keywords")


def main(write: Callable[[str], object] = print) -> None:
    write(keywords() if sys.argv[1:] == ["keywords"] else page())
