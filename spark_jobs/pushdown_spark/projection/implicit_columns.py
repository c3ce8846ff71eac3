"""Implicit columns, which describe the file of a row: `filename`, `dir0` and those of plug-ins.

A family of implicit columns is a class that recognizes names and returns values. Pluggable families follow Apache
Drill's scan framework.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from pyspark.sql.types import AtomicType, LongType, StringType, StructType, TimestampType
from sqlglot import exp

from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.names import ANY_CASE, NameRule

ImplicitValue = str | int | float | bool | date | datetime | None
"""The value of an implicit column for a file."""

BUILT_IN_NAMES = ("filename", "filepath", "fqn", "suffix", "modified", "size")
"""Built-in columns other than directories: strings, a timestamp (`modified`) and a number of bytes (`size`)."""

DIRECTORY = "dir"
"""The key of `implicit_names` for another prefix of the `dirK` columns."""
_DIRECTORY_NAME = re.compile(r"dir(0|[1-9][0-9]{0,3})", re.IGNORECASE)
_TYPES: Mapping[str, AtomicType] = {"modified": TimestampType(), "size": LongType()}


@dataclass(frozen=True)
class FileMetadata:
    """The metadata of a file, known without opening it.

    `location` is a path for a local file and a URI for any other, without percent-encoding. `directories` are the names
    between the scan's root and the file, outermost first. `size` is in bytes as stored. `modified` has a time zone.
    """

    location: str
    directories: tuple[str, ...]
    size: int
    modified: datetime

    @property
    def filename(self) -> str:
        """The last part of the location."""
        return self.location.rpartition("/")[2]


@dataclass(frozen=True)
class ImplicitColumn:
    """An implicit column: its name in DataFrames, its type, and if it is a directory, its level below the scan's root.

    `builtin` is the default name of a built-in column, or None for a column of a plug-in.
    """

    name: str
    data_type: AtomicType
    level: int | None = None
    builtin: str | None = None


class ImplicitColumns(ABC):
    """A family of implicit columns. It is created without arguments and runs on the driver."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names that errors for unknown columns may suggest."""

    @abstractmethod
    def column(self, name: str) -> ImplicitColumn | None:
        """Return the column of a name in any case, or None if it is not in this family."""

    @abstractmethod
    def value(self, column: ImplicitColumn, file: FileMetadata) -> ImplicitValue:
        """Return the value of a column of this family for a file."""


class BuiltInColumns(ImplicitColumns):
    """The columns filename, filepath, fqn, suffix, modified, size and dir0 to dirN, under configurable names."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        custom_names = dict(names or {})
        unknown = sorted(custom_names.keys() - {*BUILT_IN_NAMES, DIRECTORY})
        if unknown:
            valid = ", ".join((*BUILT_IN_NAMES, DIRECTORY))
            raise BadSpecError(f"implicit_names: there is no implicit column {unknown[0]!r}; valid names are {valid}")
        empty = sorted(builtin for builtin, name in custom_names.items() if not name)
        if empty:
            raise BadSpecError(f"implicit_names: {empty[0]!r} has an empty name; give it a name or remove it")
        self._names = {builtin: custom_names.get(builtin, builtin) for builtin in BUILT_IN_NAMES}
        self._prefix = custom_names.get(DIRECTORY, DIRECTORY)
        self._by_name = {name.lower(): builtin for builtin, name in self._names.items()}
        lower = [name.lower() for name in self._names.values()]
        duplicate = next((name for name in lower if lower.count(name) > 1 or self._level(name) is not None), None)
        if duplicate is not None:
            raise BadSpecError(f"implicit_names: two implicit columns have the same name {duplicate!r}; choose another")

    @property
    def names(self) -> tuple[str, ...]:
        """The configured names and the outermost directory."""
        return (*self._names.values(), f"{self._prefix}0")

    def column(self, name: str) -> ImplicitColumn | None:
        """Return the built-in column of a name in any case."""
        builtin = self._by_name.get(name.lower())
        if builtin is not None:
            return ImplicitColumn(self._names[builtin], _TYPES.get(builtin, StringType()), builtin=builtin)
        level = self._level(name)
        if level is None:
            return None
        return ImplicitColumn(f"{self._prefix}{level}", StringType(), level, builtin=f"{DIRECTORY}{level}")

    def _level(self, name: str) -> int | None:
        if not name.lower().startswith(self._prefix.lower()):
            return None
        return directory_level(DIRECTORY + name[len(self._prefix) :])

    def value(self, column: ImplicitColumn, file: FileMetadata) -> ImplicitValue:
        """Return a part of the file's location or listing."""
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
    """All implicit columns of a source. The first family that recognizes a name has the column."""

    def __init__(self, families: Sequence[ImplicitColumns]) -> None:
        self._families = tuple(families)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that errors for unknown columns may suggest."""
        return tuple(name for family in self._families for name in family.names)

    def find(self, name: str) -> ImplicitColumn | None:
        """Return the implicit column of a name in any case, or None if there is none."""
        return next((column for family in self._families if (column := family.column(name)) is not None), None)

    def value(self, column: ImplicitColumn, file: FileMetadata) -> ImplicitValue:
        """Return the value of a column for a file."""
        family = next(family for family in self._families if family.column(column.name) == column)
        return family.value(column, file)

    def references(self, tree: exp.Expr, schema: StructType, *, name_rule: NameRule = ANY_CASE) -> tuple[str, ...]:
        """Return the implicit columns of a predicate or query by their names in DataFrames, in order of appearance.

        A column of the schema takes precedence. `dir0.x` is a member of a table column `dir0`.
        """
        names: dict[str, None] = {}
        own_names = defined_names(tree)
        aliases = {alias.alias.lower() for alias in tree.find_all(exp.Alias)}
        subqueries = {a.name.lower() for a in tree.find_all(exp.TableAlias) if not isinstance(a.parent, exp.Table)}
        for column in tree.find_all(exp.Column, bfs=False):
            implicit = self.find(column.name)
            bare_name = column.name.lower() if len(column.parts) == 1 else ""
            is_of_subquery = len(column.parts) > 1 and column.parts[0].name.lower() in subqueries
            if is_of_subquery or bare_name in own_names or (bare_name in aliases and _sees_aliases(column)):
                continue
            is_table_column = any(has_column(schema, p.name, name_rule=name_rule) for p in column.parts)
            if implicit is not None and not is_table_column:
                names[implicit.name] = None
        return tuple(names)


BUILT_IN = ImplicitCatalog((BuiltInColumns(),))
"""The implicit columns of a source by default."""


def implicit_catalog(names: Mapping[str, str], plugins: Sequence[str]) -> ImplicitCatalog:
    """Return the implicit columns of a source: plug-ins in their order, then the built-in columns by the given names.

    `plugins` are import paths `package.module:Class` of subclasses of `ImplicitColumns`. Raises BadSpecError for a
    class that cannot be imported and for duplicate names.
    """
    if not names and not plugins:
        return BUILT_IN
    return ImplicitCatalog((*map(_plugin, plugins), BuiltInColumns(names)))


def _plugin(path: str) -> ImplicitColumns:
    module, _, name = path.partition(":")
    try:
        plugin = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError, TypeError, ValueError) as problem:
        raise BadSpecError(
            f"implicit_columns: cannot load {path!r}: {problem}; give 'package.module:Class', importable on the driver"
        ) from problem
    if not isinstance(plugin, ImplicitColumns):
        raise BadSpecError(
            f"implicit_columns: {path!r} is not a subclass of ImplicitColumns; extend "
            "pushdown_spark.projection.implicit_columns.ImplicitColumns, or remove it"
        )
    return plugin


def directory_level(name: str) -> int | None:
    """Return the K of a `dirK` name in any case, or None for any other name."""
    match = _DIRECTORY_NAME.fullmatch(name)
    return int(match.group(1)) if match else None


def defined_names(tree: exp.Expr) -> frozenset[str]:
    """Return the names, in lower case, that a query gives to columns of its own relations."""
    names = {name.name.lower() for aliases in tree.find_all(exp.Aliases) for name in aliases.expressions}
    names |= {name.name.lower() for alias in tree.find_all(exp.TableAlias) for name in alias.columns}
    return frozenset(names)


def _sees_aliases(column: exp.Column) -> bool:
    """Return whether aliases of the SELECT list take precedence where the column is."""
    return (
        column.find_ancestor(exp.Order, exp.Having, exp.Group) is not None and column.find_ancestor(exp.Window) is None
    )


def has_column(schema: StructType, name: str, *, name_rule: NameRule) -> bool:
    """Return whether the schema has a top-level column of this name."""
    return any(name_rule.same(field.name, name) for field in schema.fields)
