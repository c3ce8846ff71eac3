"""Finds fields by name, and words the error for names that are not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from pushdown_spark.errors import BadSpecError, UnknownColumnError
from pushdown_spark.expressions.names import by_name_key, name_key


class FieldIndex:
    """The fields of a struct, to be found by name however many there are."""

    def __init__(self, struct: StructType, *, case_sensitive: bool) -> None:
        self._case_sensitive = case_sensitive
        self._fields = by_name_key(struct.fields, lambda field: field.name, case_sensitive=case_sensitive)

    def __contains__(self, name: str) -> bool:
        return bool(self.all(name))

    def all(self, name: str) -> Sequence[StructField]:
        """The fields that a name may mean."""
        return self._fields.get(name_key(name, case_sensitive=self._case_sensitive), ())

    def find(self, name: str) -> StructField | None:
        """The field of a name, None where there is none. Raises BadSpecError where several differ in case alone."""
        found = self.all(name)
        if len(found) > 1:
            names = " and ".join(repr(field.name) for field in found)
            raise BadSpecError(f"columns: {name!r} may be {names}; set spark.sql.caseSensitive=true to tell them apart")
        return found[0] if found else None


def nearest_names(name: str, schema: StructType, implicit: Iterable[str]) -> tuple[str, ...]:
    """Up to three columns, struct members or implicit columns whose name comes closest to a wrong one."""
    spellings: dict[str, str] = {}
    for path in _member_paths(schema):
        spellings.setdefault(path.lower(), path)
        spellings.setdefault(path.rpartition(".")[2].lower(), path)
    for known in implicit:
        spellings.setdefault(known.lower(), known)
    close = difflib.get_close_matches(name.lower(), list(spellings), n=6, cutoff=0.6)
    return tuple(dict.fromkeys(spellings[match] for match in close))[:3]


def unknown_column(name: str, where: str, schema: StructType, implicit: Iterable[str]) -> UnknownColumnError:
    """The error for a name that the source lacks; `where` names the parameter or path that asked for it."""
    near = nearest_names(name, schema, implicit)
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


def _some_names(struct: StructType, limit: int = 10) -> str:
    names = [field.name for field in struct.fields]
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
