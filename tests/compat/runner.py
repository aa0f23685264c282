"""Runs client scenarios in a process that lives for the whole session (a JVM, or a Go program).

    runner = ScenarioRunner(command, log)
    answer = runner.run("send_sync", nameServer="127.0.0.1:9876", run="a1")     # raises on failure
    ticket = runner.submit("pull_async", ...)                                   # several at a time
    answer = runner.result(ticket)

Requests are lines "id TAB scenario TAB name=value TAB ..." with URL-encoded values; answers are
lines of JSON. What each scenario does is written beside its code (java/, go/, node/,
ordered_member.py).
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tools.peers.cache import JAVA_OPENS, apache_jars, cache_directory, fetch_dependencies, tool

HERE = Path(__file__).resolve().parent
JAVA_PROJECT = HERE / "java"
GO_MODULE = HERE / "go"

NEW_CLIENT = "5.5.0"
OLD_CLIENT = "4.9.8"
# Go's last release, and its master branch, which has TLS: the same sources, a build tag for each.
GO_RELEASED, GO_MASTER = "released", "master"
GO_MODULES = {GO_RELEASED: GO_MODULE / "go.mod", GO_MASTER: GO_MODULE / "master.mod"}

Answer = dict[str, Any]


class ScenarioFailed(AssertionError):
    """A scenario did not find what it expected; the text is its stack trace."""


class ScenarioRunner:
    """One child process that answers scenario requests. `given`: arguments of every request."""

    def __init__(
        self, command: Sequence[str], log: Path, cwd: Path, given: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        self._given = dict(given or {})
        self._ids = itertools.count(1)
        self._waiting: dict[str, Future[Answer]] = {}
        self._lock = threading.Lock()
        cwd.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=cwd,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def submit(self, scenario: str, **arguments: object) -> Future[Answer]:
        """Asks for a scenario. Several run at a time, the rest queue inside the process."""
        number = str(next(self._ids))
        words = [number, scenario]
        told = {**self._given, **arguments}
        words += [f"{key}={quote(str(value), safe='')}" for key, value in told.items()]
        future: Future[Answer] = Future()
        assert self._process.stdin is not None
        with self._lock:
            self._waiting[number] = future
            try:
                self._process.stdin.write("\t".join(words) + "\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                raise ScenarioFailed(f"the runner has ended, see {self.log}") from None
        return future

    def result(self, future: Future[Answer], timeout: float = 180.0) -> Answer:
        """The details of a scenario that went well; raises ScenarioFailed otherwise."""
        try:
            answer = future.result(timeout)
        except TimeoutError:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
            text = f"no answer in {timeout:.0f} s, end of {self.log}:\n{tail}"
            raise ScenarioFailed(text) from None
        if not answer["ok"]:
            raise ScenarioFailed(f"{answer['name']} after {answer['seconds']} s\n{answer['error']}")
        return {**answer["details"], "seconds": answer["seconds"]}

    def run(self, scenario: str, timeout: float = 180.0, **arguments: object) -> Answer:
        return self.result(self.submit(scenario, **arguments), timeout)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue
            answer = json.loads(line)
            with self._lock:
                future = self._waiting.pop(answer["id"], None)
            if future is not None:
                future.set_result(answer)
        with self._lock:
            left = list(self._waiting.values())
            self._waiting.clear()
        for future in left:
            future.set_exception(ScenarioFailed(f"the runner ended, see {self.log}"))


def _newest(files: Sequence[Path]) -> float:
    return max(file.stat().st_mtime for file in files)


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Only one process builds at a time; the others find what it has made."""
    with (cache_directory() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def scenarios_jar(folder: Path, project: Path = JAVA_PROJECT) -> Path:
    """The Java scenarios, compiled if a source is newer than the jar, as a copy in `folder`: a JVM
    fails when its jar is overwritten."""
    jar = project / "target" / "scenarios.jar"
    sources = [project / "pom.xml", *project.glob("src/**/*.java")]
    with _alone(f"compat-{project.name}"):
        if not jar.exists() or jar.stat().st_mtime < _newest(sources):
            command = [tool("mvn"), "-B", "-q", "-f", str(project / "pom.xml"), "package"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return Path(shutil.copy(jar, folder))


def client_jars(version: str) -> Path:
    """The folder with a Java client. The new client comes with Apache's servers and mqadmin."""
    if version == NEW_CLIENT:
        return apache_jars()
    return fetch_dependencies(
        f"client-acl-{version}", JAVA_PROJECT / "pom.xml", {"rocketmq.client.version": version}
    )


def java_runner(
    version: str, folder: Path, name: str, properties: Mapping[str, str] | None = None,
    given: Mapping[str, str] | None = None,
) -> ScenarioRunner:  # fmt: skip
    """A JVM with the client of this version; the files that it writes go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    # The client finds this file before any logging set-up inside the jars; without it it logs at
    # INFO.
    (folder / "rmq.logback.xml").write_text("<configuration/>\n")
    settings = {
        "user.home": str(folder),
        "rocketmq.client.logRoot": str(folder / "logs"),
        "rocketmq.client.logLevel": "WARN",
        "rocketmq.client.localOffsetStoreDir": str(folder / "offsets"),
        **(properties or {}),
    }
    class_path = [folder, scenarios_jar(folder), client_jars(version) / "*"]
    command = java_command("rmqcompat.Main", class_path, settings)
    return ScenarioRunner(command, folder / f"{name}.log", folder, given)


def java_command(
    main_class: str, class_path: Sequence[Path], properties: Mapping[str, object]
) -> list[str]:
    """The command for a JVM with clients, which starts soon and is small."""
    command = [tool("java"), *JAVA_OPENS]
    command += ["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [f"-D{key}={value}" for key, value in properties.items()]
    return [*command, "-cp", os.pathsep.join(map(str, class_path)), main_class]


def go_binary(folder: Path, version: str) -> Path:
    """The Go scenarios, compiled if a source is newer than the program, as a copy in `folder`."""
    binary = GO_MODULE / "target" / f"scenarios-{version}"
    module = GO_MODULES[version]
    sums = module.with_suffix(".sum")
    with _alone("compat-go"):
        sources = [module, sums, *GO_MODULE.glob("*.go")]
        if not binary.exists() or binary.stat().st_mtime < _newest(sources):
            binary.parent.mkdir(exist_ok=True)
            # Nobody asks this program for its commit, and git refuses a tree that belongs to
            # another user.
            command = [tool("go"), "build", "-buildvcs=false", f"-modfile={module}"]
            command += ["-tags", version, "-o", str(binary), "."]
            done = subprocess.run(
                command, cwd=GO_MODULE, capture_output=True, text=True, timeout=900
            )
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return Path(shutil.copy(binary, folder))


def go_runner(
    folder: Path, version: str = GO_RELEASED, by_tls: bool = False,
    given: Mapping[str, str] | None = None,
) -> ScenarioRunner:  # fmt: skip
    """The Go scenarios as a process; the files that the client writes go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["env", f"HOME={folder}", "ROCKETMQ_GO_LOG_LEVEL=error"]
    command += [str(go_binary(folder, version)), *(["tls"] if by_tls else [])]
    return ScenarioRunner(command, folder / "go.log", folder, given)


def ordered_member(folder: Path) -> ScenarioRunner:
    """ordered_member.py as a process."""
    folder.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    command = ["env", f"HOME={folder}", f"PYTHONPATH={path}", sys.executable]
    return ScenarioRunner([*command, str(HERE / "ordered_member.py")], folder / "log", folder)
