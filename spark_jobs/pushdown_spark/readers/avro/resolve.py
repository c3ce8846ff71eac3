"""Resolves a writer's schema with a reader's by Avro's rules: which field comes from which, and which branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pushdown_spark.errors import SchemaConflictError, UnsafeInputError
from pushdown_spark.expressions.names import by_name_key, name_key
from pushdown_spark.readers.avro.schema import Field, Kind, Type

READ_BY_SPARK = "read it with reader='spark'"


@dataclass(frozen=True)
class Names:
    """How wanted names are matched with those of the Avro schema."""

    case_sensitive: bool

    def finder(self, fields: Sequence[Field]) -> Callable[[str], int | None]:
        """Tells where the field of a name is. It raises UnsafeInputError where there are several."""
        places = by_name_key(range(len(fields)), lambda place: fields[place].name, case_sensitive=self.case_sensitive)

        def find(name: str) -> int | None:
            found = places.get(name_key(name, case_sensitive=self.case_sensitive), [])
            if len(found) > 1:
                raise UnsafeInputError(f"column {name!r} fits {len(found)} fields; set spark.sql.caseSensitive=true")
            return found[0] if found else None

        return find


def dotted(at: str, name: str) -> str:
    """The path of a member of what is at a path."""
    return f"{at}.{name}" if at else name


def split_union(union: Type) -> tuple[int | None, list[int]]:
    """The numbers of a union's null branch and of the others."""
    nulls = [place for place, branch in enumerate(union.branches) if branch.kind is Kind.NULL]
    others = [place for place, branch in enumerate(union.branches) if branch.kind is not Kind.NULL]
    return (nulls[0] if nulls else None), others


def only_branch(writer: Type, reader: Type, at: str) -> Type:
    """The one branch of the reader's union that is not null."""
    _, others = split_union(reader)
    if len(others) != 1:
        raise UnsafeInputError(f"{at} is {writer} in the file and a union of others when read; {READ_BY_SPARK}")
    return reader.branches[others[0]]


def sources(writer: Type, reader: Type, at: str) -> dict[int, int]:
    """Which field of the writer each of the reader's comes from; those that have none have defaults.

    Raises SchemaConflictError where there is no default either, and UnsafeInputError for aliases that Avro's library
    has rules of its own for: it renames the writer's fields, and only those of a record of the same name.
    """
    if writer is reader:
        return {place: place for place in range(len(writer.fields))}
    places = {field.name: place for place, field in enumerate(writer.fields)}
    found: dict[int, int] = {}
    aliased = False
    for number, field in enumerate(reader.fields):
        known = [name for name in (field.name, *field.aliases) if name in places]
        if len(known) > 1:
            raise UnsafeInputError(f"{dotted(at, field.name)} fits several fields by its aliases; {READ_BY_SPARK}")
        if known:
            found[number] = places[known[0]]
            aliased |= known[0] != field.name
        elif not field.has_default:
            raise SchemaConflictError(
                f"the reader's schema has {dotted(at, field.name)} without default, and the file does not have it"
            )
    if aliased and (writer.name != reader.name or len(set(found.values())) < len(found)):
        raise UnsafeInputError(f"{at or 'the record'} has aliases that may mean other fields; {READ_BY_SPARK}")
    return found
