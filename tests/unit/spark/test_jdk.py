"""Which Java Spark is started with, and the message when no suitable one is found."""

from pathlib import Path

import pytest

from rmq.spark import jdk


def java(folder: Path, version: str, release: bool = True) -> Path:
    """A Java home whose program prints its version as Java does."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java. A test puts what it needs into JAVA_HOME or `jvm`."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(jdk, "JVM_FOLDER", tmp_path / "jvm")
    return tmp_path


@pytest.mark.parametrize("release", [True, False])
def test_java_home_counts_first_and_the_newer_one_elsewhere_when_it_is_too_old(
    machine: Path, monkeypatch: pytest.MonkeyPatch, release: bool
) -> None:
    new = java(machine / "jvm" / "java-21", "21.0.2", release)
    assert jdk.need_java_home() == new
    mine = java(machine / "mine", "17.0.15", release)
    monkeypatch.setenv("JAVA_HOME", str(mine))
    assert jdk.need_java_home() == mine
    old = java(machine / "old", "11.0.9", release)
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert jdk.need_java_home() == new


def test_a_machine_without_a_fitting_java_is_told_what_there_is_and_what_to_do(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(jdk.JdkError, match=r"there is none\. Install one .*openjdk-17"):
        jdk.need_java_home()
    old = java(machine / "jvm" / "java-8", "1.8.0_400")
    monkeypatch.setenv("JAVA_HOME", str(machine / "no-such-folder"))
    with pytest.raises(jdk.JdkError) as caught:
        jdk.need_java_home()
    assert "\n" not in str(caught.value)
    assert f"Java 8 in {old}" in str(caught.value)
    assert f"JAVA_HOME={machine}/no-such-folder" in str(caught.value)
