"""A copy of the tests' Spark environment that can be packed: without packages that are installed as links."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_LEFT_OUT = ("jars", "examples", "__pycache__", "classes.jsa", "*pushdown_spark*")
"""Large files that are not packed, and the package itself, which every job submits."""


def packable_environment(spark_python: str, target: Path) -> Path:
    """Return the copy, whose files are links where possible."""
    ignored = shutil.ignore_patterns(*_LEFT_OUT)
    return Path(
        shutil.copytree(Path(spark_python).parents[1], target, symlinks=True, ignore=ignored, copy_function=_link)
    )


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
