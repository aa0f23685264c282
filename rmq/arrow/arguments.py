"""Arguments: the options of a read as Python's keywords and values.

    options = read_options_of({"topic": ["orders"], "batch_rows": 100}, BROKER)
    with python_names(): ...                # errors name keywords, not Spark's options

A keyword is the option's name as Python writes it; those about servers are named as in Producer. A
keyword that is None counts as not given. A list stands for words separated by commas, a dict for
JSON, a datetime for ms since 1970 (without a zone it is local time, as everywhere in Python), a
timedelta for ms.
"""

from __future__ import annotations

import inspect
import json
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from rmq.arrow.options import (
    HIDDEN,
    READ,
    TABLE,
    Option,
    OptionError,
    Options,
    read_options,
)
from rmq.arrow.options import (
    WRITE as WRITING,
)
from rmq.arrow.queues import DataLossError
from rmq.arrow.read_plan import DamagedMessageError
from rmq.base.signatures import with_keywords
from rmq.errors import UnreachableError

NAMESRV_VARIABLE, NAMESRV_ADDR = "NAMESRV_ADDR", "127.0.0.1:9876"
Function = TypeVar("Function", bound=Callable[..., Any])
RENAMED = {"nameserver": "namesrv_addr", "tls": "use_tls"}
# Options about Spark's tasks and batches; and subscribe, which is topic by another name.
_FOR_SPARK = {"subscribe", "minPartitions", "maxPartitions", "maxRecordsPerPartition",
              "maxBytesPerPartition", "pushdown", "gcFreeze", "transactional",
              "transactionTimeout"}  # fmt: skip
_FOR_STORES = {"path", "brokerName"}
_FOR_BROKERS = {
    "nameserver", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "endingOffsetsByTimestamp", "group", "sql", "fetchBytes", "planTimeoutMs", "pollTimeoutMs",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "accessKey", "secretKey",
    "securityToken", "tls", "tlsCaFile", "tlsVerify", "tlsCertFile", "tlsKeyFile", "tlsKeyPassword",
}  # fmt: skip
_ALL = {RENAMED.get(option.name, option.attribute): option
        for option in TABLE if option.name not in _FOR_SPARK}  # fmt: skip
_READ = {word: each for word, each in _ALL.items() if READ in each.where}
BROKER = {word: each for word, each in _READ.items() if each.name not in _FOR_STORES}
STORE = {word: each for word, each in _READ.items() if each.name not in _FOR_BROKERS}
WRITE = {word: each for word, each in _ALL.items() if WRITING in each.where}
_WORDS = {each.name: word for word, each in _ALL.items() if each.name != word}
# A name of one lower-case word may also be part of a value (/etc/pki/tls), which must stay.
_PLAIN = [name for name in _WORDS if name.islower()]
_CAMEL = [re.escape(name) for name in sorted(_WORDS, reverse=True) if name not in _PLAIN]
_NAMES = re.compile(
    rf"(?:options? )?\b({'|'.join(_CAMEL)})\b"
    rf"|options? ({'|'.join(_PLAIN)})\b|\b({'|'.join(_PLAIN)})(?==)"
)


def read_options_of(
    given: Mapping[str, Any], known: Mapping[str, Option], more: Mapping[str, str] | None = None
) -> Options:
    """The options of a read; `more` has options by Spark's names. OptionError names the keyword."""
    return read_options(texts_of(given, known, more), streaming=False)


def texts_of(
    given: Mapping[str, Any], known: Mapping[str, Option], more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Options as their texts, by Spark's names; the name server has a default."""
    texts = dict(more or {})
    if "namesrv_addr" in known:
        texts.setdefault("nameserver", os.environ.get(NAMESRV_VARIABLE) or NAMESRV_ADDR)
    for word, value in given.items():
        option = known.get(word)
        if option is None:
            near = get_close_matches(word, known, n=1) or known
            raise OptionError(f"there is no argument {word}; there is {', '.join(near)}")
        if value is not None:
            texts[option.name] = _text(word, value)
    return texts


def _text(word: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, Path)):
        return str(value)
    if isinstance(value, datetime):
        return str(_ms(value))
    if isinstance(value, timedelta):
        return str(value // timedelta(milliseconds=1))
    if isinstance(value, Mapping):
        return json.dumps(_json(value))
    if isinstance(value, Iterable):
        found = list(value)
        if all(isinstance(each, str) and not set(",;") & set(each) for each in found) and found:
            return (";" if word == "namesrv_addr" else ",").join(found)
    else:
        try:
            return str(operator.index(value))  # numpy's numbers, too
        except TypeError:
            pass
    shown = type(value).__name__ if HIDDEN.search(word) else repr(value)
    raise OptionError(f"{word}={shown}: it is neither text nor a number, a time, or names")


def _ms(moment: datetime) -> int:
    """Ms since 1970. pandas takes a time without a zone for UTC; here it is local, as in Python."""
    plain = getattr(moment, "to_pydatetime", None)
    return int((moment if plain is None else plain()).timestamp() * 1000)


def _json(value: Any) -> Any:
    """The value, in types that JSON has."""
    if isinstance(value, Mapping):
        return {str(key): _json(each) for key, each in value.items()}
    if isinstance(value, datetime):
        return _ms(value)
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return [_json(each) for each in value]
    try:
        return operator.index(value)
    except TypeError:
        raise OptionError(f"{value!r} is no offset, no queue and no time") from None


@contextmanager
def python_names() -> Iterator[None]:
    """Errors that leave the block name arguments by their keywords."""
    try:
        yield
    except (OptionError, DataLossError, DamagedMessageError, UnreachableError) as error:
        raise type(error)(_NAMES.sub(_word, str(error))) from None


def _word(found: re.Match[str]) -> str:
    return _WORDS[found[1] or found[2] or found[3]]


def documented(known: Mapping[str, Option]) -> Callable[[Function], Function]:
    """Adds the keywords, from the table of options, to a function's signature and docstring."""

    def document(function: Function) -> Function:
        shown = inspect.signature(function)
        words = {word: each for word, each in known.items() if word not in shown.parameters}
        described: Any = function
        described.__signature__ = with_keywords(
            shown, [(word, each.default, "Any") for word, each in words.items()]
        )
        width = max(map(len, words))
        lines = [f"        {word.ljust(width)}  {each.about}" for word, each in words.items()]
        described.__doc__ = f"{inspect.getdoc(function)}\n\n    Keywords\n\n" + "\n".join(lines)
        return function

    return document
