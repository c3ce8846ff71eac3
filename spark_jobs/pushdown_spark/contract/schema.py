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
    """Return the JSON schema of a message. `mode` is that of pydantic.

    The descriptions of fields are read from the source code at this time, because jobs do not need them.
    """
    schema = message.model_json_schema(mode=mode)
    parts = {message.__name__: schema, **schema.get("$defs", {})}
    for part in Message.__subclasses__():
        properties = parts.get(part.__name__, {}).get("properties", {})
        for name, description in _descriptions(part):
            if name in properties:
                properties[name]["description"] = description
    return schema


def _descriptions(message: type[Message]) -> Iterator[tuple[str, str]]:
    """Yield the JSON name and the description of each field that has one."""
    (definition,) = ast.parse(inspect.getsource(message)).body
    assert isinstance(definition, ast.ClassDef)
    for node, following in pairwise(definition.body):
        match node, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield message.model_fields[name].alias or name, " ".join(text.split())
