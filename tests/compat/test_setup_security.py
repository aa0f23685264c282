"""What `rmq setup security` prints for Java and Go: it compiles and signs, and Java believes no
other authority than the one it is given.

Method: the lines as they are printed, with what a program needs around them. Cannot show: Go by
TLS, which its client (v2.1.2) does not know.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from compat.runner import GO_MODULE, NEW_CLIENT, OLD_CLIENT, client_jars
from support.certificates import Authority
from support.secured_broker import SecuredBroker, secured_broker

from tools.peers.cache import JAVA_OPENS, tool

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
    """What it says, with the flags that are printed beside the lines."""
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


def test_go(tmp_path: Path) -> None:
    with secured_broker(tmp_path, "--mode", "permissive") as secured:
        lines = secured.printed["Go"].splitlines(keepends=True)
        printed = "".join(line for line in lines if not line.startswith("//"))
        module = tmp_path / "printed"
        module.mkdir()
        for name in ("go.mod", "go.sum"):
            shutil.copy(GO_MODULE / name, module)
        (module / "main.go").write_text(GO.format(printed=printed.rstrip()))
        command = [tool("go"), "run", "-buildvcs=false", "."]
        environment = {**os.environ, "ROCKETMQ_GO_LOG_LEVEL": "error"}
        done = subprocess.run(
            command, cwd=module, env=environment, capture_output=True, text=True, timeout=600
        )
        assert "SendResult [sendStatus=0" in done.stdout, done.stdout + done.stderr
