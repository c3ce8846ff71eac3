"""Paths of this machine in every form in which users, Spark and Hadoop write them."""

from __future__ import annotations

import pytest

from pushdown_spark.local_paths import escape_glob, is_local, local_path


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/lake/x", "/lake/x"),
        ("lake/x", "lake/x"),
        ("", ""),
        ("file:/lake/x", "/lake/x"),
        ("file:///lake/x", "/lake/x"),
        ("file://lake/x", "/lake/x"),
        ("file:///lake/a%20b:c", "/lake/a%20b:c"),
        ("file:", "/"),
        ("file:///", "/"),
        ("/lake/file:/x", "/lake/file:/x"),
        ("10:30.json", "10:30.json"),
        ("file:x", "file:x"),
        ("s3a://lake/x", None),
        ("viewfs:/lake/x", None),
        ("hdfs:///lake/file:/x", None),
    ],
)
def test_only_paths_of_this_machine_have_a_local_path(path: str, local: str | None) -> None:
    assert local_path(path) == local
    assert is_local(path) == (local is not None)


@pytest.mark.parametrize("character", list("*?[]{}\\"))
def test_glob_characters_are_escaped(character: str) -> None:
    assert escape_glob(f"/a {character}b%-,~") == f"/a \\{character}b%-,~"
