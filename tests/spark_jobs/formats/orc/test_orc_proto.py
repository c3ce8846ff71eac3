"""The generated classes have the messages and fields of `orc_proto.proto`."""

from __future__ import annotations

import re
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor

from pushdown_spark.formats.orc import orc_proto_pb2

PROTO = Path(orc_proto_pb2.__file__).with_name("orc_proto.proto")
FIELD = re.compile(r"^  (optional|repeated) (\w+) (\w+) = (\d+)", re.MULTILINE)
MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)


def declared_fields() -> dict[str, set[tuple[str, str, str, int]]]:
    """Return the fields of each message: label, type, name and number."""
    return {
        name: {(label, type_, field, int(number)) for label, type_, field, number in FIELD.findall(body)}
        for name, body in MESSAGE.findall(PROTO.read_text())
    }


def generated_field(field: FieldDescriptor) -> tuple[str, str, str, int]:
    types = {
        number: name.removeprefix("TYPE_").lower()
        for name, number in vars(FieldDescriptor).items()
        if name.startswith("TYPE_")
    }
    type_ = field.message_type.name if field.message_type is not None else types[field.type]
    return "repeated" if field.is_repeated else "optional", type_, field.name, field.number


def test_generated_classes_match_the_proto() -> None:
    messages = orc_proto_pb2.DESCRIPTOR.message_types_by_name
    assert {name: set(map(generated_field, message.fields)) for name, message in messages.items()} == declared_fields()
    assert all(declared_fields().values())
