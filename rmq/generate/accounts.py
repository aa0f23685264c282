"""Accounts: the first passwords of servers in containers, and the files that hold them.

    admin       the first Super user: servers sign their requests with it, and an operator makes
                other users with it
    metrics     the user that reads /metrics

Servers get them as JSON in environment variables, whose values are in no image and no manifest.
"""

from __future__ import annotations

import json
import secrets

import msgspec

from rmq.generate.output import GeneratedFile
from rmq.generate.server_settings import ADMIN, METRICS

FOLDER = "accounts"
PASSWORD_BYTES = 24
METRICS_USER = "prometheus"


class Accounts(msgspec.Struct, frozen=True):
    """admin, metrics: JSON of a user and a password."""

    admin: str
    metrics: str
    metrics_password: str

    @classmethod
    def make(cls) -> Accounts:
        admin, metrics = (secrets.token_urlsafe(PASSWORD_BYTES) for _ in range(2))
        return cls(_user("admin", admin), _user(METRICS_USER, metrics), metrics)

    def __repr__(self) -> str:
        return "Accounts()"

    def for_compose(self) -> list[GeneratedFile]:
        """The secret files. All users may read Prometheus' password file, because Prometheus runs
        as a user of its image; the folder with the file is closed to them."""
        variables = f"{ADMIN}='{self.admin}'\n{METRICS}='{self.metrics}'\n"
        return [
            _secret("servers.env", variables),
            _secret("admin.json", f"{self.admin}\n"),
            _secret("metrics-password", self.metrics_password, mode=0o644),
            _secret(".gitignore", "*\n"),
        ]

    def for_kubernetes(self, secret: str) -> list[GeneratedFile]:
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret},
            "type": "Opaque",
            "stringData": {"admin": self.admin, "metrics": self.metrics},
        }
        return [
            _secret("secret.json", json.dumps(manifest, indent=2) + "\n"),
            _secret("admin.json", f"{self.admin}\n"),
            _secret(".gitignore", "*\n"),
        ]


def _user(name: str, password: str) -> str:
    return json.dumps({"username": name, "password": password})


def _secret(name: str, text: str, mode: int = 0o600) -> GeneratedFile:
    return GeneratedFile(f"{FOLDER}/{name}", text, is_secret=True, mode=mode)
