"""Advised options: what the commands of the ready line need where nobody else may ask.

    options, variables = advised_options(settings)      " --user admin --tls-ca /etc/ca.pem", ""

Never a password: `--user` asks for it. Where a server has no certificate but that of its own, which
nobody can check, the variables before each command say so.
"""

from __future__ import annotations

import shlex

from rmq.auth.options import AuthOptions
from rmq.config import Settings

UNCHECKED = "RMQ_TLS_VERIFY=0 "


def advised_options(settings: Settings) -> tuple[str, str]:
    """(behind a command, before it); empty where everybody may ask."""
    words: list[str] = []
    who = AuthOptions.of(settings)
    if who.authenticates:
        known = who.first_user or who.inner
        words += ["--user", known.access_key if known is not None else "NAME"]
    before = ""
    if getattr(settings, "tls.server.mode") == "enforcing":
        is_own = not getattr(settings, "tls.server.certPath")
        before = UNCHECKED if is_own else ""
        found = [("--tls-ca", "trustCertPath")] if not is_own else []
        if getattr(settings, "tls.server.need.client.auth") == "require":
            found += [("--tls-cert", "certPath"), ("--tls-key", "keyPath")]
        files = [(option, getattr(settings, f"tls.client.{key}")) for option, key in found]
        named = [word for option, path in files if path for word in (option, path)]
        words += named or ["--tls"]
    return "".join(f" {shlex.quote(word)}" for word in words), before
