"""Secrets mask: takes passwords and keys out of texts and settings that others will read.

    mask = SecretsMask(["wonderland"])
    mask.text('password: "wonderland"')         'password: "******"'
    safe_settings({"tls.server.keyPassword": "x", "brokerName": "b", "mine": "y"})
        {"tls.server.keyPassword": "******", "brokerName": "b"}, ["mine"]

Settings are looked up in the tables of rmq/config_table.py: a secret there is masked, and a key
that is not in them is left out, because nobody knows what it holds. In any text everything that
looks like a secret is masked, too: known passwords, private keys, users and passwords in URLs, and
values of members that have a name such as password.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rmq.config_table import MASK, table_of

LEAST_CHARACTERS = 4  # of a known secret; shorter ones would be found within words
# Names that settings, accounts and clients have for secrets.
_NAME = r"(?:[\w.]*(?:password|passwd|secret_?key|secret|token|private_?key)|accessToken)"
# A value in quotes; in quotes within a text that is quoted itself; without quotes.
_VALUE = r'"(?:[^"\\]|\\.)*"|\\"(?:(?!\\").)*\\"|[^\s,;{}\[\]"\\]+'
_ASSIGNED = re.compile(rf'(?i)(?P<name>"?\b{_NAME}\b\\?"?)(?P<is>\s*[:=]\s*)(?P<value>{_VALUE})')
_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\A[A-Za-z0-9+/=\s]*-----END [A-Z ]*PRIVATE KEY-----",  # a key whose beginning was cut off
    re.DOTALL,
)
_USER = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s@\"']+@", re.IGNORECASE)
_HOLDS_SECRETS = re.compile("pass|secret|credential|token|header|accesskey", re.IGNORECASE)


def safe_settings(
    settings: Mapping[str, str], server: str = "broker"
) -> tuple[dict[str, str], list[str]]:
    """Returns (settings that others may see, keys that were left out)."""
    table = table_of(server)
    shown, left_out = {}, []
    for key, text in settings.items():
        row = table.get(key)
        if row is None:
            left_out.append(key)
        else:
            is_secret = row.secret or _HOLDS_SECRETS.search(key) is not None
            shown[key] = MASK if is_secret and text and not _is_switch(text) else text
    return shown, sorted(left_out)


def _is_switch(text: str) -> bool:
    return text in ("true", "false") or text.isdecimal()


class SecretsMask:
    """`known`: secrets that are masked wherever they stand in a text."""

    def __init__(self, known: Collection[str] = ()) -> None:
        forms = {form for each in known if len(each) >= LEAST_CHARACTERS
                 for form in (each, json.dumps(each)[1:-1])}  # fmt: skip
        longest_first = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def text(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(MASK, text)
        text = _KEY.sub(MASK, text)
        text = _USER.sub(rf"\1{MASK}@", text)
        return _ASSIGNED.sub(_masked, text)


def _masked(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    if value in ("null", "None", "true", "false", '""'):
        return found[0]
    quote = re.match(r'\\?"', value) or re.search(r'\\?"$', name)  # JSON stays JSON
    mark = quote[0] if quote is not None else ""
    return f"{name}{found['is']}{mark}{MASK}{mark}"


def secrets_in(value: Any) -> Iterator[str]:
    """Yields the texts in decoded JSON whose member is named like a secret."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if isinstance(each, str) and re.fullmatch(_NAME, str(name), re.IGNORECASE):
                yield each
            yield from secrets_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from secrets_in(each)
