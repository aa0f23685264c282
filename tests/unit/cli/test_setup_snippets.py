"""What `rmq setup security` prints for each kind of client. With the clients themselves:
test_setup_security.py in each of tests/process, tests/compat and tests/spark."""

from __future__ import annotations

from pathlib import Path

from support.source_tree import ROOT

from rmq.setup.clients import snippets
from rmq.setup.security import Security

ADDRESS = "broker.example.org:9876"


def test_each_kind_is_told_the_address_and_whom_to_believe(tmp_path: Path) -> None:
    secured = Security(tmp_path, ["broker.example.org"], "root", "enforcing")
    secured.files["authority.pem"] = b""
    printed = snippets(secured, ADDRESS)
    assert list(printed) == ["rmq", "Python", "Java", "Go", "Spark", "mqadmin"]
    authority = str(tmp_path / "authority.pem")
    for kind, text in printed.items():
        assert ADDRESS in text, kind
        assert (authority in text) == (kind != "Go"), "Go's client believes everybody"
    keys = f"accessKey: root\nsecretKey: the password in {tmp_path}/admin.json\n"
    assert keys in printed["mqadmin"]


def test_a_real_authority_is_named_without_a_folder(tmp_path: Path) -> None:
    printed = snippets(Security(tmp_path, ["localhost"], "admin", "enforcing"), ADDRESS)
    assert "trustCertPath=authority.pem" in printed["mqadmin"]
    assert str(tmp_path / "authority.pem") not in "".join(printed.values())


def test_the_version_of_gos_client_that_is_named_is_the_one_that_is_tested(tmp_path: Path) -> None:
    text = snippets(Security(tmp_path, ["localhost"], "admin", "enforcing"), ADDRESS)["Go"]
    (line,) = [line for line in text.splitlines() if line.startswith("// go get ")]
    named = " ".join(line.split()[-1].split("@"))
    for path in ("tests/compat/go/master.mod", "tests/compat/go/master.sum"):
        assert named in (ROOT / path).read_text()
    assert named.replace(" ", "@") in (ROOT / "docs" / "security.md").read_text()
    assert "v2.1.2" in text and "WithTls(true)" in text
