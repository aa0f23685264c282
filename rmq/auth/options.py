"""Options: what a server's settings say of accounts.

    authenticationEnabled, authorizationEnabled               requests need a user; the user's
                                                              policies must allow them
    initAuthenticationUser {"username":..,"password":..}      a Super user that exists from the
                                                              first start on
    innerClientAuthenticationCredentials {"accessKey":..,"secretKey":..}
                                                              the same, and servers sign as this
                                                              user
    authenticationWhitelist, authorizationWhitelist 10,310    requests that need no signature; that
                                                              need no permission
    aclEnable, rmqPlainAclPath                                turns on both, and uses the accounts
                                                              of ACL 1.0, too
    rmqTlsUser commonName                                     a client whose certificate names a
                                                              user need not sign

Instead of JSON, a setting may have the path of a file that holds it and that not everybody may
read; or a variable of the environment that holds either, alone or as the beginning of the path.

Example: initAuthenticationUser=$CREDENTIALS_DIRECTORY/admin.json, with systemd's LoadCredential=.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from rmq.config import Settings
from rmq.errors import ConfigError
from rmq.format.signature import Credentials

FIRST_USER = "initAuthenticationUser"
INNER = "innerClientAuthenticationCredentials"
SECRET_BYTES_MAX = 64 << 10


class AuthOptions(msgspec.Struct, frozen=True):
    authenticates: bool = False
    authorizes: bool = False
    first_user: Credentials | None = None
    inner: Credentials | None = None
    unauthenticated: frozenset[int] = frozenset()
    unauthorized: frozenset[int] = frozenset()
    plain_acl: Path | None = None  # of plain_acl.yml; None: it is not used
    by_certificate: bool = False  # a client that does not sign is the user its certificate names

    @classmethod
    def of(cls, settings: Settings) -> AuthOptions:
        """The options in the settings; ConfigError, which shows no secret, if one is invalid."""
        plain_acl = _plain_acl(settings)
        return cls(
            settings.authenticates,
            settings.authorizes,
            _credentials(FIRST_USER, settings.initAuthenticationUser, "username", "password")
            if settings.authenticates
            else None,
            inner_credentials(settings),
            _codes("authenticationWhitelist", settings.authenticationWhitelist),
            _codes("authorizationWhitelist", settings.authorizationWhitelist),
            plain_acl,
            _by_certificate(settings),
        )


def _by_certificate(settings: Settings) -> bool:
    if settings.rmqTlsUser == "none":
        return False
    asks = getattr(settings, "tls.server.need.client.auth")
    if getattr(settings, "tls.server.mode") == "disabled":
        raise ConfigError(f"rmqTlsUser={settings.rmqTlsUser}: leave out tls.server.mode=disabled")
    if not settings.authenticates:
        raise ConfigError(f"rmqTlsUser={settings.rmqTlsUser}: give authenticationEnabled=true")
    if asks not in ("optional", "require") or not getattr(settings, "tls.server.trustCertPath"):
        raise ConfigError(
            f"rmqTlsUser={settings.rmqTlsUser}: nobody is asked for a certificate; give "
            "tls.server.need.client.auth=require (or optional), and tls.server.trustCertPath with "
            "the authorities of these certificates"
        )
    return True


def _plain_acl(settings: Settings) -> Path | None:
    if not settings.aclEnable:
        return None
    path = Path(settings.rmqPlainAclPath).expanduser()
    if not path.is_absolute():
        raise ConfigError(
            "aclEnable=true: say where the accounts are: rmqPlainAclPath=/opt/rocketmq/conf/"
            "plain_acl.yml; those of the directory acl beside it are read as well"
        )
    return path


def inner_credentials(settings: Settings) -> Credentials | None:
    """The account with which this server signs; None if the setting is not given."""
    return _credentials(INNER, settings.innerClientAuthenticationCredentials,
                        "accessKey", "secretKey")  # fmt: skip


def metrics_credentials(settings: Settings) -> Credentials | None:
    """The user and password that readers of metrics need; None: none."""
    return _credentials("rmqMetricsCredentials", settings.rmqMetricsCredentials,
                        "username", "password")  # fmt: skip


def _credentials(key: str, text: str, name: str, secret: str) -> Credentials | None:
    if not text:
        return None
    shown = text  # for a variable only its name is shown, as its value may be a password
    if text.startswith("$"):
        text = _from_environment(key, text)
    content = text if text.startswith("{") else _file(key, text, shown)
    try:
        members = msgspec.json.decode(content, type=dict[str, str])
    except msgspec.DecodeError:
        members = {}
    if not members.get(name, "").strip() or not members.get(secret, "").strip():
        raise ConfigError(
            f'{key}: give {{"{name}":"..","{secret}":".."}}, or the path of a file that holds it'
        )
    return Credentials(members[name], members[secret])


def _from_environment(key: str, text: str) -> str:
    variable, _, rest = text[1:].partition("/")
    value = os.environ.get(variable, "")
    if not value:
        shown = f"${variable}" if variable.isidentifier() and variable.isupper() else "such name"
        raise ConfigError(f"{key}: the environment has no {shown}")
    return f"{value}/{rest}" if rest else value


def _file(key: str, text: str, shown: str) -> bytes:
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise ConfigError(f"{key}: neither a JSON object nor an absolute path")
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            content = file.read(SECRET_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"{key}: {shown} cannot be read: {error.strerror}") from None
    if mode & 0o007:
        raise ConfigError(f"{key}: {shown} can be read by everybody: chmod 600 {shown}")
    return content


def _codes(key: str, text: str) -> frozenset[int]:
    texts = [each.strip() for each in text.split(",") if each.strip()]
    if not all(each.isascii() and each.isdecimal() and len(each) < 10 for each in texts):
        raise ConfigError(f"{key}={text[:100]}: request codes with commas between, such as 10,310")
    return frozenset(map(int, texts))
