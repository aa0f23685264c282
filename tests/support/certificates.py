"""Certificates for tests: an authority, and what it signs.

    authority = Authority(tmp_path)
    server = authority.pair("server")       server.certificate, server.key: paths of PEM files
    authority.certificate                   what clients trust
    lay(server, used)                       the files of a server that runs are others now

Elliptic keys, valid for a day, for localhost and 127.0.0.1. Made in this process: the openssl
command costs 45 ms of a processor each time it starts, and two starts make a pair.
"""

from __future__ import annotations

import datetime
import ipaddress
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CURVE = ec.SECP256R1()
NAMES = x509.SubjectAlternativeName(
    [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
)


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


class Authority:
    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self.certificate, self._key_file = folder / f"{name}.pem", folder / f"{name}.key"
        self._key = ec.generate_private_key(CURVE)
        self._name = _subject(f"/CN={name}")
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        is_authority = x509.BasicConstraints(ca=True, path_length=None)
        begun = self._begun(self._name, self._key).add_extension(is_authority, critical=True)
        self._put(begun.add_extension(own, critical=False), self.certificate)
        self._key_file.write_bytes(_private(self._key))

    def pair(self, name: str, password: str = "", subject: str = "") -> Pair:
        """subject: CN=name, unless it says otherwise, /CN=one/CN=two."""
        key, file = ec.generate_private_key(CURVE), self._folder / f"{name}.key"
        file.touch(0o600)
        file.write_bytes(_private(key, password))
        return self._signed(key, file, name, subject)

    def renewed(self, pair: Pair, name: str) -> Pair:
        """Another certificate, in this name, of the same key."""
        key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return self._signed(key, pair.key, name)

    def _signed(
        self, key: ec.EllipticCurvePrivateKey, file: Path, name: str, subject: str = ""
    ) -> Pair:
        found = self._folder / f"{name}.pem"
        begun = self._begun(_subject(subject or f"/CN={name}"), key)
        self._put(begun.add_extension(NAMES, critical=False), found)
        return Pair(found, file)

    def _begun(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    def _put(self, begun: x509.CertificateBuilder, path: Path) -> None:
        signed = begun.sign(self._key, hashes.SHA256())
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def sign(self, request: Path, certificate: Path) -> None:
        """As a company's authority does: by another program than the one that made the request."""
        names = self._folder / "names.ext"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        words = [
            "openssl", "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey",
            self._key_file, "-CAcreateserial", "-days", 1, "-extfile", names, "-out", certificate,
        ]  # fmt: skip
        subprocess.run(list(map(str, words)), check=True, capture_output=True)


def _subject(words: str) -> x509.Name:
    """/CN=one/CN=two"""
    names = [each.removeprefix("CN=") for each in words.split("/")[1:]]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])


def _private(key: ec.EllipticCurvePrivateKey, password: str = "") -> bytes:
    locked: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        locked = serialization.BestAvailableEncryption(password.encode())
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, locked)
