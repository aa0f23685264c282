"""Checks: refuse values that would be read as syntax in one of the generated files.

    absolute_path("/opt/rmq")     the path; ValueError says what may be given

No value that passes holds a blank, a quote, or a sign that YAML, systemd, a shell or PromQL reads.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

Check = Callable[[str], str]

# Units of systemd do not see what is in these folders: ProtectHome=.
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
# Words that YAML would not read as a text.
WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def pattern_check(pattern: str, wanted: str, *, is_text: bool = False) -> Check:
    """A check that the whole text is ASCII and fits the pattern. is_text: YAML must also read it as
    a text, without quotes."""
    compiled = re.compile(pattern, re.ASCII)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise ValueError(f"{text[:100]!r}: {wanted}")
        if is_text and (text.lower() in WORDS or NUMBER.fullmatch(text)):
            raise ValueError(f"{text!r}: {wanted}, and no number or {text.lower()!r} of YAML")
        return text

    return check


NUMBER = re.compile(r"[0-9_]+(e[0-9]+)?|0[xo][0-9a-f_]+", re.IGNORECASE)
NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
LABEL = r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?"
IMAGE = (
    r"[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?(:[0-9]{1,5})?"
    r"(/[a-z0-9]([a-z0-9._-]{0,100}[a-z0-9])?){0,8}"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
BYTES = r"[1-9][0-9]{0,9}[KMGT]i"
CORES = r"[1-9][0-9]{0,4}m|[1-9][0-9]{0,3}(\.[0-9]{1,3})?|0\.[0-9]{0,2}[1-9]"

name = pattern_check(NAME, "letters, digits, _ and - (63 at most)", is_text=True)
label = pattern_check(
    LABEL, "small letters, digits and dashes (40 at most), a letter first", is_text=True
)
image = pattern_check(IMAGE, "an image such as registry.example.org/rmq:0.1.0", is_text=True)
memory = pattern_check(BYTES, "a size such as 512Mi or 2Gi")
cores = pattern_check(CORES, "cores such as 2, 0.5 or 500m")
user = pattern_check(r"[a-z_][a-z0-9_-]{0,30}", "a user's name: small letters, digits, _ and -")
host = pattern_check(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?", "a host name or an address")
_path = pattern_check(r"(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+", "an absolute path of letters, digits "
                      "and . _ + -, without a dot first")  # fmt: skip


def absolute_path(text: str) -> str:
    return _path(text.rstrip("/") if len(text) < 1000 else "")


def path_for_units(text: str) -> str:
    path = absolute_path(text)
    for hidden in HIDDEN:
        if path == hidden or path.startswith(f"{hidden}/"):
            raise ValueError(
                f"{path}: services do not see {hidden} (ProtectHome=); install into /opt/rmq: "
                "python3 -m venv /opt/rmq && /opt/rmq/bin/pip install . (in a checkout; elsewhere "
                "a wheel)"
            )
    return path


def ipv4_address(text: str) -> str:
    """The address of a broker for its clients; it must be IPv4, as messages carry it."""
    try:
        found = ipaddress.IPv4Address(text)
    except ValueError:
        raise ValueError(f"{text[:100]!r}: an IPv4 address such as 10.0.0.5") from None
    if found.is_unspecified or found.is_multicast:
        raise ValueError(f"{text}: the address of one machine")
    return str(found)
