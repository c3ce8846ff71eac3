"""The JSON schemas of job specs and reports describe every field."""

from __future__ import annotations

import pytest

from pushdown_spark.contract import JobResult, JobSpec
from pushdown_spark.contract.message import Message
from pushdown_spark.contract.message_schema import message_schema


@pytest.mark.parametrize("message", [JobSpec, JobResult])
def test_every_field_has_a_description(message: type[Message]) -> None:
    schema = message_schema(message)
    parts = {message.__name__: schema, **schema["$defs"]}  # type: ignore[dict-item]
    has_description = {
        f"{part}.{name}": "description" in field
        for part, properties in parts.items()
        for name, field in properties.get("properties", {}).items()
    }
    assert len(has_description) > 30
    assert [name for name, is_described in has_description.items() if not is_described] == []


def test_aliases_are_described_under_their_names_in_json() -> None:
    source = message_schema(JobSpec)["$defs"]["SourceSpec"]  # type: ignore[index]
    assert source["properties"]["schema"]["description"].startswith("The schema as Spark DDL.")
