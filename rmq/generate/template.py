"""Template: a text with places for values, from the folder templates.

    filled("namesrv.conf", {"config": "/etc/rmq", "access": "bindAddress=127.0.0.1"})

A place is written @{name}, because the texts themselves are full of $ and {}. The value of a place
that is alone on its line may have several lines, which are indented like the place; if the value is
empty, the line is left out. KeyError: a place has no value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

PLACE = re.compile(r"@\{([a-z_]+)\}")
LINE = re.compile(r"^([ \t]*)@\{([a-z_]+)\}\n", re.MULTILINE)


def filled(name: str, values: Mapping[str, str]) -> str:
    """The template of that name below the folder, with the values in their places."""
    text = resources.files(__package__).joinpath(f"templates/{name}").read_text("utf-8")
    text = LINE.sub(lambda found: _indented(values[found[2]], found[1]), text)
    return PLACE.sub(lambda found: values[found[1]], text)


def _indented(value: str, blanks: str) -> str:
    return "".join(f"{blanks}{line}".rstrip() + "\n" for line in value.splitlines())
