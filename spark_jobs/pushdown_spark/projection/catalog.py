"""The implicit columns that a source has: the built-in ones under configurable names, and those of plug-ins.

A family of implicit columns is one class, with a parser for names and a filler for values. The split into pluggable
parsers follows Apache Drill's scan framework.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from pyspark.sql.types import AtomicType, LongType, StringType, StructType, TimestampType
from sqlglot import exp

from pushdown_spark.errors import BadSpecError
from pushdown_spark.projection.implicit import FILE_COLUMNS, directory_level, implicit_references

ImplicitValue = str | int | float | bool | date | datetime | None
"""What an implicit column may hold for a file."""

DIRECTORY = "dir"
"""Under which the names of the `dirK` columns are configured: another prefix."""
_TYPES: Mapping[str, AtomicType] = {"modified": TimestampType(), "size": LongType()}


@dataclass(frozen=True)
class FileFacts:
    """What is known of a file without opening it.

    `location` is a bare path for a local file and a whole URI for any other, without percent-encoding; `directories`
    are the names between the scan's root and the file, outermost first; `size` is in bytes as stored; `modified` has a
    time zone.
    """

    location: str
    directories: tuple[str, ...]
    size: int
    modified: datetime

    @property
    def filename(self) -> str:
        """The last part of the location."""
        return self.location.rpartition("/")[2]


class ImplicitKind(StrEnum):
    """What an implicit column tells about."""

    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True)
class ImplicitColumn:
    """An implicit column: its name in frames, its type, and for a directory its level below the scan's root.

    `builtin` is the name that the column has by default, None for a plug-in's column.
    """

    name: str
    data_type: AtomicType
    kind: ImplicitKind = ImplicitKind.FILE
    level: int | None = None
    builtin: str | None = None


class ImplicitColumns(ABC):
    """A family of implicit columns. Made without arguments; runs on the driver only."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names to suggest where somebody asks for a column that is not there."""

    @abstractmethod
    def column(self, name: str) -> ImplicitColumn | None:
        """The column meant by a name, None for a name of no column of this family. Upper and lower case are one."""

    @abstractmethod
    def value(self, column: ImplicitColumn, file: FileFacts) -> ImplicitValue:
        """What a column of this family holds in every row of a file."""


class BuiltInColumns(ImplicitColumns):
    """filename, filepath, fqn, suffix, modified, size and dir0 to dirN, each under its own or a configured name."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        chosen = dict(names or {})
        unknown = sorted(chosen.keys() - {*FILE_COLUMNS, DIRECTORY})
        if unknown:
            known = ", ".join((*FILE_COLUMNS, DIRECTORY))
            raise BadSpecError(f"implicit_names: there is no implicit column {unknown[0]!r}; there are {known}")
        empty = sorted(builtin for builtin, name in chosen.items() if not name)
        if empty:
            raise BadSpecError(f"implicit_names: {empty[0]!r} has an empty name; give it one, or leave it out")
        self._names = {builtin: chosen.get(builtin, builtin) for builtin in FILE_COLUMNS}
        self._prefix = chosen.get(DIRECTORY, DIRECTORY)
        self._by_name = {name.lower(): builtin for builtin, name in self._names.items()}
        twins = len(self._by_name) < len(self._names)
        if twins or any(self._level(name) is not None for name in self._by_name):
            raise BadSpecError("implicit_names: two implicit columns would have the same name; choose another")

    @property
    def names(self) -> tuple[str, ...]:
        """The configured names, and the outermost directory."""
        return (*self._names.values(), f"{self._prefix}0")

    def column(self, name: str) -> ImplicitColumn | None:
        """The file column, or the directory, of a name."""
        builtin = self._by_name.get(name.lower())
        if builtin is not None:
            return ImplicitColumn(self._names[builtin], _TYPES.get(builtin, StringType()), builtin=builtin)
        level = self._level(name)
        if level is None:
            return None
        return ImplicitColumn(
            f"{self._prefix}{level}", StringType(), ImplicitKind.DIRECTORY, level, builtin=f"{DIRECTORY}{level}"
        )

    def _level(self, name: str) -> int | None:
        if not name.lower().startswith(self._prefix.lower()):
            return None
        return directory_level(DIRECTORY + name[len(self._prefix) :])

    def value(self, column: ImplicitColumn, file: FileFacts) -> ImplicitValue:
        """What the file's place and listing tell."""
        if column.level is not None:
            return file.directories[column.level] if column.level < len(file.directories) else None
        _, dot, suffix = file.filename.rpartition(".")
        values: dict[str, ImplicitValue] = {
            "filename": file.filename,
            "filepath": file.location.rpartition("/")[0] or "/",
            "fqn": file.location,
            "suffix": suffix if dot else None,
            "modified": file.modified,
            "size": file.size,
        }
        return values[column.builtin or column.name]


class ImplicitCatalog:
    """All implicit columns of a source; of two families that know a name, the one named first has it."""

    def __init__(self, families: Sequence[ImplicitColumns]) -> None:
        self._families = tuple(families)

    @property
    def names(self) -> tuple[str, ...]:
        """Names to suggest."""
        return tuple(name for family in self._families for name in family.names)

    def find(self, name: str) -> ImplicitColumn | None:
        """The implicit column of a name in any case, None where there is none."""
        return next((column for family in self._families if (column := family.column(name)) is not None), None)

    def value(self, column: ImplicitColumn, file: FileFacts) -> ImplicitValue:
        """What a column holds in every row of a file."""
        family = next(family for family in self._families if family.column(column.name) == column)
        return family.value(column, file)

    def references(self, tree: exp.Expr, schema: StructType, *, case_sensitive: bool = False) -> tuple[str, ...]:
        """Implicit columns that a predicate or query mentions, by their names in frames, in order of appearance."""

        def named(name: str) -> str | None:
            column = self.find(name)
            return None if column is None else column.name

        return implicit_references(tree, schema, case_sensitive=case_sensitive, named=named)


BUILT_IN = ImplicitCatalog((BuiltInColumns(),))
"""What a source has that configures nothing."""


def catalog_of(names: Mapping[str, str], plugins: Sequence[str]) -> ImplicitCatalog:
    """The implicit columns of a source: plug-ins in their order, then the built-in ones under the given names.

    `plugins` are import paths `package.module:Class` of `ImplicitColumns`. Raises BadSpecError for those that cannot be
    imported, and for names that contradict each other.
    """
    if not names and not plugins:
        return BUILT_IN
    return ImplicitCatalog((*map(_plugin, plugins), BuiltInColumns(names)))


def _plugin(path: str) -> ImplicitColumns:
    module, _, name = path.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError, TypeError, ValueError) as problem:
        raise BadSpecError(
            f"implicit_columns: cannot load {path!r}: {problem}; give 'package.module:Class', importable on the driver"
        ) from problem
    if not isinstance(made, ImplicitColumns):
        raise BadSpecError(f"implicit_columns: {path!r} is no ImplicitColumns; derive it from that class")
    return made
