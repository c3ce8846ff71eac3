"""Options of the driver's JVM that shorten short jobs.

Short jobs spend most of their time starting Spark. During this start, the JVM's optimizing compiler takes as much CPU
time as everything else, and saves none. Jobs over little data therefore run without it, and other jobs start it later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from glob import iglob
from itertools import islice
from math import inf
from pathlib import Path

from pushdown_spark.contract import AnySourceSpec, JobSpec, SourceSpec
from pushdown_spark.local_paths import local_path

SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable with JVM options that spark-submit passes to the JVM of a driver on this machine."""
OPTION_VARIABLES = (SUBMIT_OPTIONS, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
OPTION_SETTINGS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")

FAST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""The options for a JVM without the optimizing compiler. Java would also leave less room for compiled code."""
_DELAY_FACTOR = 10
_LATE_COMPILER = " ".join(
    f"-XX:{name}={_DELAY_FACTOR * value}"
    for name, value in {
        "Tier4InvocationThreshold": 5_000,
        "Tier4MinInvocationThreshold": 600,
        "Tier4CompileThreshold": 15_000,
        "Tier4BackEdgeThreshold": 40_000,
    }.items()
)
"""The options for an optimizing compiler that compiles code later than by default."""
_COMPILER_OPTIONS = (
    "Tiered",
    "Tier3",
    "Tier4",
    "CompileThreshold",
    "-Xint",
    "-Xcomp",
    "-Xbatch",
    "CodeCache",
    "JVMCI",
    "CICompiler",
)
"""Parts of JVM options that configure the compiler. If a user sets one of them, this module adds none."""

_SMALL = 100_000_000
"""Bytes of text up to which parsing without the optimizing compiler is faster than starting it."""
_EXPANSION = 8
"""Bytes of text that one byte of a compressed file or of a binary format counts as."""
_TEXT_FORMATS = frozenset({"json", "csv", "text"})
_COMPRESSED = (".gz", ".bz2", ".zst", ".xz", ".lz4", ".snappy", ".deflate")
_MAX_FILES = 1_000


def user_options(environment: Mapping[str, str], settings: Mapping[str, str]) -> str:
    """Return all JVM options that a user has set for the driver."""
    variables = (environment.get(name, "") for name in OPTION_VARIABLES)
    return " ".join([*variables, *(settings.get(name, "") for name in OPTION_SETTINGS)])


def compiler_options(spec: JobSpec, java_options: str, *, has_local_files: bool) -> str:
    """Return the options of the JVM's compiler, or none if the user's options `java_options` have one.

    `has_local_files` is whether paths without a scheme are on this machine.
    """
    if any(option in java_options for option in _COMPILER_OPTIONS):
        return ""
    is_scan = spec.query is None or spec.query.sql is None
    if is_scan and has_local_files and is_small(spec):
        return FAST_COMPILER
    return _LATE_COMPILER


def is_small(spec: JobSpec) -> bool:
    """Return whether all sources are files on this machine that are too small for the optimizing compiler to pay."""
    try:
        return sum(map(_text_bytes, spec.sources.values())) <= _SMALL
    except OSError:
        # The job itself reports files that cannot be read.
        return False


def _text_bytes(source: AnySourceSpec) -> float:
    """Return the size of a source as bytes of text, or infinite if it is unknown or has many files."""
    if not isinstance(source, SourceSpec):
        return inf
    patterns = [local_path(path) or "" for path in source.path]
    if not all(pattern.startswith("/") for pattern in patterns):
        return inf
    files = list(islice(_files(patterns), _MAX_FILES + 1))
    if len(files) > _MAX_FILES:
        return inf
    is_text = source.format.value in _TEXT_FORMATS
    return sum(size if is_text and not name.endswith(_COMPRESSED) else _EXPANSION * size for name, size in files)


def _files(patterns: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield name and size of the files below local paths, which may be globs."""
    for pattern in patterns:
        for match in iglob(pattern):  # noqa: PTH207 - the pattern is absolute
            path = Path(match)
            if not path.is_dir():
                yield match, path.stat().st_size
                continue
            for directory, _, names in os.walk(path):
                yield from ((name, (Path(directory) / name).stat().st_size) for name in names)
