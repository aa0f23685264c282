"""What `rmq setup security` prints for Java, Go and mqadmin compiles, signs and speaks TLS; Java
and mqadmin believe only the authority that they are given.

Method: the lines as they are printed, with what a program needs around them. Go's client believes
every certificate; v2.1.2, which has no TLS, is for `--mode permissive`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from compat.runner import (
    GO_MASTER,
    GO_MODULES,
    GO_RELEASED,
    NEW_CLIENT,
    OLD_CLIENT,
    client_jars,
)
from support.certificates import Authority
from support.secured_broker import SecuredBroker, secured_broker

from tools.peers.cache import JAVA_OPENS, tool
from tools.peers.mqadmin import MAIN_CLASS

pytestmark = pytest.mark.compat

JAVA = """\
import org.apache.rocketmq.acl.common.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.Message;

public class Printed {{
    public static void main(String[] words) {{
        try {{
{printed}
            producer.start();
            System.out.println(producer.send(new Message("orders", "hello".getBytes())));
            System.exit(0);
        }} catch (Exception error) {{
            error.printStackTrace();
            System.exit(1);
        }}
    }}
}}
"""
GO = """\
package main

import (
	"context"
	"fmt"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func main() {{
	p, err := {printed}
	if err == nil {{
		err = p.Start()
	}}
	if err != nil {{
		panic(err)
	}}
	fmt.Println(p.SendSync(context.Background(), primitive.NewMessage("orders", []byte("hello"))))
}}
"""


def run_java(secured: SecuredBroker, version: str, authority: Path) -> str:
    """The program's output, run with the flags that are printed beside the lines."""
    text = secured.printed["Java"].replace(str(secured.authority), str(authority))
    flags = [word for word in shlex.split(text, comments=False, posix=False) if word[:2] == "-D"]
    assert len(flags) == 3, text
    source = secured.folder / "Printed.java"
    source.write_text(JAVA.format(printed=text))
    command = [tool("java"), *JAVA_OPENS, f"-Duser.home={secured.folder}", *flags]
    command += ["-cp", f"{client_jars(version)}/*", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


@pytest.mark.parametrize("version", [NEW_CLIENT, OLD_CLIENT])
def test_java(version: str, tmp_path: Path) -> None:
    with secured_broker(tmp_path) as secured:
        assert "SEND_OK" in run_java(secured, version, secured.authority)
        (tmp_path / "other").mkdir()
        other = Authority(tmp_path / "other").certificate
        said = run_java(secured, version, other)
        assert "SEND_OK" not in said and "Exception" in said


def run_go(secured: SecuredBroker, folder: Path, module: Path, printed: str) -> str:
    """The program's output, with the client that go.mod or master.mod names."""
    folder.mkdir()
    shutil.copy(module, folder / "go.mod")
    shutil.copy(module.with_suffix(".sum"), folder / "go.sum")
    (folder / "main.go").write_text(GO.format(printed=printed.rstrip()))
    command = [tool("go"), "run", "-buildvcs=false", "."]
    environment = {**os.environ, "ROCKETMQ_GO_LOG_LEVEL": "error"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    return done.stdout + done.stderr


def test_go(tmp_path: Path) -> None:
    """With TLS by Go's master branch, which is the one that is named; without TLS by its last
    release."""
    by_tls = ",\n    producer.WithTls(true)"
    with secured_broker(tmp_path, "--mode", "permissive") as secured:
        printed = secured.printed["Go"]
        named = re.findall(r"^// go get (\S+)@(\S+)$", printed, re.MULTILINE)
        assert [" ".join(words) in GO_MODULES[GO_MASTER].read_text() for words in named] == [True]
        assert printed.count(by_tls) == 1
        plain = GO_MODULES[GO_RELEASED]
        said = run_go(secured, tmp_path / "plain", plain, printed.replace(by_tls, ""))
        assert "SendResult [sendStatus=0" in said, said
        assert "WithTls" in run_go(secured, tmp_path / "without", plain, printed), "it has none"
    (tmp_path / "tls").mkdir()
    with secured_broker(tmp_path / "tls") as secured:
        said = run_go(secured, tmp_path / "master", GO_MODULES[GO_MASTER], secured.printed["Go"])
        assert "SendResult [sendStatus=0" in said, said
        without = secured.printed["Go"].replace(by_tls, "")
        said = run_go(secured, tmp_path / "refused", GO_MODULES[GO_MASTER], without)
        assert "sendStatus=0" not in said, said


def run_mqadmin(secured: SecuredBroker, authority: Path) -> str:
    """The command's output, with conf/tools.yml and flags as they are printed."""
    text = secured.printed["mqadmin"].replace(str(secured.authority), str(authority))
    head, shell = text.split("# in the shell\n")
    password = json.loads((secured.folder / "admin.json").read_text())["password"]
    told = f"the password in {secured.folder}/admin.json"
    assert told in head
    home = secured.folder.parent / "home"
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "conf" / "tools.yml").write_text(head.replace(told, password))
    # Without this file it logs to its output.
    (home / "rmq.logback.xml").write_text("<configuration/>\n")
    export, command = (shlex.split(line) for line in shell.splitlines())
    name, _, flags = export[1].partition("=")
    assert (export[0], name, command[0]) == ("export", "JAVA_OPT", "mqadmin")
    ran = [tool("java"), *JAVA_OPENS, f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"]
    ran += [*flags.split(), "-cp", f"{home}:{client_jars(NEW_CLIENT)}/*", MAIN_CLASS, *command[1:]]
    done = subprocess.run(ran, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def test_mqadmin(tmp_path: Path) -> None:
    with secured_broker(tmp_path) as secured:
        assert secured.broker.address in run_mqadmin(secured, secured.authority)
        (tmp_path / "other").mkdir()
        said = run_mqadmin(secured, Authority(tmp_path / "other").certificate)
        # The send itself failed; it did not only wait too long for an answer.
        assert secured.broker.address not in said and "ResponseFuture.executeInvokeCallback" in said
