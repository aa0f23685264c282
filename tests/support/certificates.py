"""Certificates for tests, by the openssl command: an authority, and what it signs.

    authority = Authority(tmp_path)
    server = authority.pair("server")       server.certificate, server.key: paths of PEM files
    authority.certificate                   what clients trust
    lay(server, used)                       the files of a server that runs are others now

Elliptic keys, valid for a day, for localhost and 127.0.0.1.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path

    def settings(self, mode: str, **more: object) -> list[str]:
        """Options of a command that serves with it."""
        given = {"mode": mode, "certPath": self.certificate, "keyPath": self.key, **more}
        words: list[str] = []
        for name, value in given.items():
            words += ["--set", f"tls.server.{name}={value}"]
        return words


def lay(pair: Pair, used: Pair) -> None:
    """Key first, each in the place of the old one at once."""
    beside = used.key.with_name("next")
    for source, target in ((pair.key, used.key), (pair.certificate, used.certificate)):
        shutil.copy(source, beside)
        beside.rename(target)


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


class Authority:
    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self.certificate, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", 1, "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.certificate,
        )  # fmt: skip

    def pair(self, name: str, password: str = "", subject: str = "") -> Pair:
        """subject: CN=name, unless it says otherwise, /CN=one/CN=two."""
        request, key = self._folder / f"{name}.csr", self._folder / f"{name}.key"
        hidden = ["-passout", f"pass:{password}"] if password else ["-nodes"]
        _openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", *hidden,
            "-subj", subject or f"/CN={name}", "-keyout", key, "-out", request,
        )  # fmt: skip
        found = self._folder / f"{name}.pem"
        self.sign(request, found)
        return Pair(found, key)

    def renewed(self, pair: Pair, name: str) -> Pair:
        """Another certificate, in this name, of the same key."""
        request, found = self._folder / f"{name}.csr", self._folder / f"{name}.pem"
        _openssl("req", "-new", "-key", pair.key, "-subj", f"/CN={name}", "-out", request)
        self.sign(request, found)
        return Pair(found, pair.key)

    def sign(self, request: Path, certificate: Path) -> None:
        names = self._folder / "names.ext"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key,
            "-CAcreateserial", "-days", 1, "-extfile", names, "-out", certificate,
        )  # fmt: skip
