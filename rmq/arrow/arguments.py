"""Arguments: the options of a read as Python's keywords and values.

    options = options_of({"topic": ["orders"], "starting_timestamp": datetime(2026, 1, 1)}, BROKER)
    with python_names(): ...                # errors name keywords, not Spark's options

A keyword is the option's name as Python writes it; the servers' ones are those of Producer. None is
a keyword that is not given. Lists stand for what commas separate, dicts for JSON, datetime for ms
since 1970 (one without a zone is local time, as everywhere in Python), timedelta for ms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rmq.arrow.options import READ, TABLE, OptionError, Options, read_options
from rmq.arrow.queues import DataLossError
from rmq.arrow.read_plan import DamagedMessageError
from rmq.errors import UnreachableError

RENAMED = {"nameserver": "namesrv_addr", "tls": "use_tls"}
# Of Spark's tasks; and what has a keyword of its own.
_FOR_SPARK = {"subscribe", "minPartitions", "maxPartitions", "maxRecordsPerPartition",
              "maxBytesPerPartition", "pushdown", "gcFreeze"}  # fmt: skip
_FOR_STORES = {"path", "brokerName"}
_FOR_BROKERS = {
    "nameserver", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "endingOffsetsByTimestamp", "failOnDataLoss", "group", "sql", "fetchBytes", "planTimeoutMs",
    "pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "accessKey",
    "secretKey", "securityToken", "tls", "tlsCaFile", "tlsVerify", "tlsCertFile", "tlsKeyFile",
    "tlsKeyPassword",
}  # fmt: skip
KEYWORDS = {
    RENAMED.get(option.name, option.attribute): option
    for option in TABLE
    if READ in option.where and option.name not in _FOR_SPARK
}
BROKER = {word: each for word, each in KEYWORDS.items() if each.name not in _FOR_STORES}
STORE = {word: each for word, each in KEYWORDS.items() if each.name not in _FOR_BROKERS}
_WORDS = {each.name: word for word, each in KEYWORDS.items() if each.name != word}
_NAMES = re.compile(
    r"(?:options? )?\b(" + "|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True)) + r")\b"
)


def options_of(
    given: Mapping[str, Any], known: Mapping[str, Any], more: Mapping[str, str] | None = None
) -> Options:
    """The options of a read; `more` by Spark's names. OptionError names the keyword."""
    texts = dict(more or {})
    for word, value in given.items():
        option = known.get(word)
        if option is None:
            near = get_close_matches(word, known, n=1) or known
            raise OptionError(f"there is no argument {word}; there is {', '.join(near)}")
        if value is not None:
            texts[option.name] = _text(word, value)
    return read_options(texts, streaming=False)


def _text(word: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, Path)):
        return str(value)
    if isinstance(value, datetime):
        return str(int(value.timestamp() * 1000))
    if isinstance(value, timedelta):
        return str(int(value.total_seconds() * 1000))
    if isinstance(value, Mapping):
        return json.dumps(value, default=_json_time)
    if isinstance(value, Iterable):
        found = list(value)
        if all(isinstance(each, str) and "," not in each for each in found) and found:
            return ",".join(found)
    raise OptionError(f"{word}={value!r}: it is neither text nor a number, a time, or names")


def _json_time(value: object) -> int:
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    raise OptionError(f"{value!r} is no offset and no time")


@contextmanager
def python_names() -> Iterator[None]:
    """Errors that leave the block name arguments by their keywords."""
    try:
        yield
    except (OptionError, DataLossError, DamagedMessageError, UnreachableError) as error:
        raise type(error)(_NAMES.sub(lambda found: _WORDS[found[1]], str(error))) from None
