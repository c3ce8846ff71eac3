"""Files by Java's ORC writer, which is Spark's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from orc_samples import Sample, loaded
from pyspark.sql import DataFrame

SparkFile = Callable[..., Sample]


@pytest.fixture
def by_spark(tmp_path: Path) -> SparkFile:
    """Writes a frame as one file; keywords are the writer's options with `_` for `.`."""
    made: list[Path] = []

    def write(frame: DataFrame, **options: object) -> Sample:
        directory = tmp_path / f"spark-{len(made)}"
        made.append(directory)
        given = {key.replace("_", "."): str(value) for key, value in options.items()}
        frame.coalesce(1).write.options(**given).orc(str(directory))
        (part,) = directory.glob("part-*.orc")
        return loaded(part)

    return write
