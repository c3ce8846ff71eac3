"""The typed keywords of a session are the fields of the specs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pushdown_spark.contract import RemoteSourceSpec, SourceSpec, TableSourceSpec
from pushdown_spark.contract.message import Message
from pushdown_spark.contract.sources import FileFields, ReaderFields, RemoteFields


@pytest.mark.parametrize(
    ("keywords", "spec", "others"),
    [
        # Jobs have a limit for malformed lines. The rest are arguments of their own.
        (FileFields, SourceSpec, {"path", "format", "max_malformed"}),
        (ReaderFields, TableSourceSpec, {"table", "format"}),
        (RemoteFields, RemoteSourceSpec, {"format"}),
    ],
)
def test_keywords_are_the_fields_of_the_spec(keywords: type, spec: type[Message], others: set[str]) -> None:
    fields = {field.alias or name for name, field in spec.model_fields.items()}
    assert keywords.__optional_keys__ == fields - others
    assert not keywords.__required_keys__


def test_options_have_the_values_that_pyspark_accepts() -> None:
    value = {"header": True, "multiLine": False, "samplingRatio": 0.5, "maxColumns": 4, "sep": ";", "comment": None}
    source = SourceSpec.model_validate({"format": "csv", "path": ["users"], "options": value})
    assert source.options == {
        "header": "true",
        "multiLine": "false",
        "samplingRatio": "0.5",
        "maxColumns": "4",
        "sep": ";",
    }
    with pytest.raises(ValidationError, match=r"options.header\n  Input should be a valid string"):
        SourceSpec.model_validate({"format": "csv", "path": ["users"], "options": {"header": ["true"]}})
