"""Lookup of fields by name, and the error for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from pushdown_spark.errors import BadSpecError, UnknownColumnError
from pushdown_spark.expressions.names import NameRule

_SHOWN_NAMES = 10
"""Maximum number of column names in a message."""


class FieldIndex:
    """The fields of a struct by name."""

    def __init__(self, struct: StructType, *, name_rule: NameRule) -> None:
        self._name_rule = name_rule
        self._fields = name_rule.group(struct.fields, lambda field: field.name)

    def __contains__(self, name: str) -> bool:
        return bool(self.all(name))

    def all(self, name: str) -> Sequence[StructField]:
        """Return the fields that a name may refer to."""
        return self._fields.get(self._name_rule.key(name), ())

    def find(self, name: str) -> StructField | None:
        """Return the field of a name, or None if there is none. Raises BadSpecError for several fields."""
        fields = self.all(name)
        if len(fields) > 1:
            names = " and ".join(repr(field.name) for field in fields)
            raise BadSpecError(f"columns: {name!r} is ambiguous: {names}; set spark.sql.caseSensitive=true")
        return fields[0] if fields else None


def _nearest_names(name: str, schema: StructType, implicit: Iterable[str]) -> tuple[str, ...]:
    """Return up to three columns, struct members or implicit columns with the most similar names."""
    spellings: dict[str, str] = {}
    for path in _member_paths(schema):
        spellings.setdefault(path.lower(), path)
        spellings.setdefault(path.rpartition(".")[2].lower(), path)
    for implicit_name in implicit:
        spellings.setdefault(implicit_name.lower(), implicit_name)
    close = difflib.get_close_matches(name.lower(), list(spellings), n=6, cutoff=0.6)
    return tuple(dict.fromkeys(spellings[match] for match in close))[:3]


def unknown_column(name: str, where: str, schema: StructType, implicit: Iterable[str]) -> UnknownColumnError:
    """Return the error for a name that the source lacks. `where` is the parameter or the path that has the name."""
    near = _nearest_names(name, schema, implicit)
    hint = f"did you mean {', '.join(near)}?" if near else f"the columns are {_some_names(schema)}"
    return UnknownColumnError(f"{where}: there is no column {name!r}; {hint}")


def _member_paths(struct: StructType, prefix: str = "") -> Iterator[str]:
    for field in struct.fields:
        yield prefix + field.name
        inner = field.dataType
        while isinstance(inner, ArrayType | MapType):
            inner = inner.elementType if isinstance(inner, ArrayType) else inner.valueType
        if isinstance(inner, StructType):
            yield from _member_paths(inner, f"{prefix}{field.name}.")


def _some_names(struct: StructType) -> str:
    names = struct.fieldNames()
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + more
