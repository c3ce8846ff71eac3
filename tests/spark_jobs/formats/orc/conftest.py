"""Files written by ORC's Java writer, which Spark uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from orc_samples import Sample, SparkFile, load_sample
from pyspark.sql import DataFrame


@pytest.fixture
def by_spark(tmp_path: Path) -> SparkFile:
    paths: list[Path] = []

    def write(frame: DataFrame, **options: object) -> Sample:
        directory = tmp_path / f"spark-{len(paths)}"
        paths.append(directory)
        writer_options = {key.replace("_", "."): str(value) for key, value in options.items()}
        frame.coalesce(1).write.options(**writer_options).orc(str(directory))
        (part,) = directory.glob("part-*.orc")
        return load_sample(part)

    return write
