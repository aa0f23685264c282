"""What settings say about accounts; and no error shows a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq.auth.options import AuthOptions
from rmq.config import load_properties
from rmq.errors import ConfigError
from rmq.format.signature import Credentials

ADMIN = '{"username":"admin","password":"geheim"}'
INNER = '{"accessKey":"inner","secretKey":"geheim"}'


def options(**settings: str) -> AuthOptions:
    return AuthOptions.of(load_properties(None, settings))


def test_off_is_the_default() -> None:
    assert options() == AuthOptions()
    assert options(initAuthenticationUser="/not/there") == AuthOptions(), "nobody needs it"


def test_all_of_it() -> None:
    found = options(
        authenticationEnabled="true", authorizationEnabled="true", initAuthenticationUser=ADMIN,
        innerClientAuthenticationCredentials=INNER, authenticationWhitelist=" 10, 310,",
        authorizationWhitelist="105",
    )  # fmt: skip
    admin, inner = Credentials("admin", "geheim"), Credentials("inner", "geheim")
    assert found == AuthOptions(True, True, admin, inner, frozenset((10, 310)), frozenset((105,)))
    assert "geheim" not in repr(found)


@pytest.mark.parametrize("wrong", ["ten", "10;310", "-1", "10 310", "1" * 30])
def test_what_is_no_white_list(wrong: str) -> None:
    with pytest.raises(ConfigError, match="authenticationWhitelist"):
        options(authenticationWhitelist=wrong)


@pytest.mark.parametrize(
    "wrong",
    ["geheim", '{"username":"admin"}', '{"password":"geheim"}', '{"username":"","password":"x"}',
     '{"username":1,"password":"geheim"}', '{"username":"admin","password":"geheim"'],
)  # fmt: skip
def test_what_is_no_user(wrong: str) -> None:
    with pytest.raises(ConfigError, match="initAuthenticationUser") as caught:
        options(authenticationEnabled="true", initAuthenticationUser=wrong)
    assert "geheim" not in str(caught.value)


def test_a_secret_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "admin.json"
    path.write_text(ADMIN)
    path.chmod(0o600)
    assert options(
        authenticationEnabled="true", initAuthenticationUser=str(path)
    ).first_user == Credentials("admin", "geheim")
    path.chmod(0o604)
    with pytest.raises(ConfigError, match="chmod 600"):
        options(authenticationEnabled="true", initAuthenticationUser=str(path))
    path.unlink()
    with pytest.raises(ConfigError, match=r"admin\.json cannot be read"):
        options(authenticationEnabled="true", initAuthenticationUser=str(path))


def test_a_secret_may_be_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "admin.json").write_text(ADMIN)
    (tmp_path / "admin.json").chmod(0o600)
    monkeypatch.setenv("ADMIN", ADMIN)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    for text in ("$ADMIN", "$CREDENTIALS_DIRECTORY/admin.json"):
        found = options(authenticationEnabled="true", initAuthenticationUser=text)
        assert found.first_user == Credentials("admin", "geheim")
    monkeypatch.setenv("BARE", "/geheim")  # a password by mistake, where a path is expected
    for text, named in (
        ("$NOBODY", "no $NOBODY"), ("$NOBODY/x", "no $NOBODY"), ("$geheim", "no such name"),
        ("$BARE", "$BARE cannot be read"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="initAuthenticationUser") as caught:
            options(authenticationEnabled="true", initAuthenticationUser=text)
        assert named in str(caught.value)
        assert "geheim" not in str(caught.value)


def test_files_of_acl_1_turn_both_on(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    found = options(aclEnable="true", rmqPlainAclPath=str(path))
    assert found == AuthOptions(authenticates=True, authorizes=True, plain_acl=path)
    for wrong in ("", "conf/plain_acl.yml"):
        with pytest.raises(ConfigError, match="rmqPlainAclPath=/opt"):
            options(aclEnable="true", rmqPlainAclPath=wrong)
