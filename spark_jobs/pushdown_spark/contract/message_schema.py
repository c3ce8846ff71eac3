"""JSON schemas of the messages, with the descriptions that follow the fields in the source code."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

from pushdown_spark.contract.message import Message

JsonSchema = dict[str, object]


def message_schema(message: type[Message], mode: Literal["validation", "serialization"] = "validation") -> JsonSchema:
    """Return the JSON schema of a message. `mode` is pydantic's parameter.

    The descriptions of fields are read from the source code at this time, because jobs do not need them.
    """
    schema = message.model_json_schema(mode=mode)
    parts = {message.__name__: schema, **schema.get("$defs", {})}
    for owner in _subclasses(Message):
        descriptions = dict(_descriptions(owner))
        for part in (owner, *_subclasses(owner)):
            for name, field in parts.get(part.__name__, {}).get("properties", {}).items():
                if name in descriptions:
                    field["description"] = descriptions[name]
    return schema


def _subclasses(message: type[Message]) -> Iterator[type[Message]]:
    """Yield the subclasses of a message, each before its own."""
    for part in message.__subclasses__():
        yield part
        yield from _subclasses(part)


def _descriptions(message: type[Message]) -> Iterator[tuple[str, str]]:
    """Yield the JSON name and the description of each field that the class declares with one."""
    (definition,) = ast.parse(inspect.getsource(message)).body
    assert isinstance(definition, ast.ClassDef)
    for node, description in pairwise(definition.body):
        match node, description:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield message.model_fields[name].alias or name, " ".join(text.split())
