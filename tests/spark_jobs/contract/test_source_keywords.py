"""The typed keywords of a session are the fields of the specs."""

from __future__ import annotations

import pytest

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
