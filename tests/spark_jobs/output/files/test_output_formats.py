"""Supported output formats: those whose files can be staged in a directory and renamed."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pushdown_spark.contract import OutputFormat, OutputSpec


@pytest.mark.parametrize("name", ["parquet", "ORC", "avro", "Json", "csv", "text", "xml"])
def test_file_formats_are_recognized_in_any_case(name: str) -> None:
    assert OutputSpec.model_validate({"path": "/out", "format": name}).format is OutputFormat(name.lower())


@pytest.mark.parametrize(
    "name", ["jdbc", "delta", "iceberg", "hudi", "noop", "org.apache.spark.sql.jdbc", "binaryFile", None, 3]
)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_other_formats_raise(name: object, mode: str) -> None:
    with pytest.raises(ValidationError, match="must be one of parquet, orc, avro, json, csv, text, xml"):
        OutputSpec.model_validate({"path": "/out", "format": name, "mode": mode})
