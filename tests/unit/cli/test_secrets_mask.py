"""Goal: a text for others lacks everything that is a secret, or looks like one, and has all the
rest.

Not shown here: a secret that nobody knows, in a text that does not say that it is one.
"""

from __future__ import annotations

import json

import pytest

from rmq.cli.secrets_mask import SecretsMask, safe_settings, secrets_in
from rmq.config import load_properties
from rmq.config_table import MASK, table_of


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"password": "x y", "user": "bob"}', '{"password": "******", "user": "bob"}'),
        ('{"secretKey":"a\\"b","k":1}', '{"secretKey":"******","k":1}'),
        (r'{"rmq":"{\"password\":\"p\"}"}', r'{"rmq":"{\"password\":\"******\"}"}'),
        ('{"token": 5, "tokens": 6}', '{"token": "******", "tokens": 6}'),
        ('{"password": null, "secret": {"a": 1}}', '{"password": null, "secret": {"a": 1}}'),
        ("tls.server.keyPassword=geheim next", "tls.server.keyPassword=****** next"),
        ("secretKey: geheim", "secretKey: ******"),
        ("etcd at http://root:pw@10.0.0.1:2379/x", "etcd at http://******@10.0.0.1:2379/x"),
        ("a wonderland b", "a ****** b"),
        ("-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\nrest", "******\nrest"),
        ("MII=\n-----END EC PRIVATE KEY-----\nrest", "******\nrest"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII", "******"),
        ("the password is wrong: User:alice", "the password is wrong: User:alice"),
    ],
)
def test_what_is_one_is_masked(text: str, left: str) -> None:
    mask = SecretsMask(["wonderland", "ab"])
    assert mask.text(text) == left
    assert mask.text(mask.text(text)) == left
    if text.startswith("{"):
        json.loads(left)


def test_a_known_one_is_found_as_json_has_it() -> None:
    secret = 'a"b\\c'
    assert secret not in SecretsMask([secret]).text(f"{secret} {json.dumps(secret)}")
    assert "b" not in SecretsMask([secret]).text(json.dumps({"x": secret}))


def test_settings_go_by_the_table() -> None:
    settings = load_properties(None, {"brokerName": "b", "tls.server.keyPassword": "x",
                                      "rmqTlsUser": "commonName"})  # fmt: skip
    texts = dict(settings.items()) | {"somebodysSecret": "y", "metricsGrpcExporterHeader": "z"}
    shown, left_out = safe_settings(texts)
    assert (shown["brokerName"], shown["tls.server.keyPassword"]) == ("b", MASK)
    assert left_out == ["somebodysSecret"] and "y" not in shown.values()
    assert shown["metricsGrpcExporterHeader"] == MASK
    assert shown["authenticationEnabled"] == "false"


@pytest.mark.parametrize("server", ["broker", "namesrv", "controller"])
def test_each_secret_of_a_table_is_masked(server: str) -> None:
    secret = {key for key, row in table_of(server).items() if row.secret}
    shown, _ = safe_settings(dict.fromkeys(table_of(server), "value"), server)
    assert secret <= {key for key, text in shown.items() if text == MASK} and secret
    assert shown["listenPort"] == "value"


def test_secrets_of_an_account_file_are_found() -> None:
    users = {
        "users": {"alice": {"username": "alice", "password": "pw"}},
        "more": [{"secretKey": 1}],
    }
    assert list(secrets_in(users)) == ["pw"]
