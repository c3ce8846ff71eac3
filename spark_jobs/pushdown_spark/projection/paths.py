"""Column paths such as `m.b`, `arr[0,2]`, `tags['k']` and `a(b, c(d)) AS x`, and their parser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pushdown_spark.errors import BadSpecError

if TYPE_CHECKING:
    from pyspark.sql import types as t

_MAX_POSITION = 2**31 - 1
_NAME = re.compile(r"[^\s.,*`()\[\]]+")
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")
_DIGITS = re.compile(r"[0-9]+")
_STRING = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"")
_AS = re.compile(r"\s+AS\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Member:
    """A column of the table, or a member of the struct that the previous step returns."""

    name: str


@dataclass(frozen=True)
class Elements:
    """Zero-based positions in an array, in ascending order and without duplicates."""

    positions: tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """The value of a map for one key, or an array of the values for several keys."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """A struct with only some members of the struct that the previous step returns."""

    members: tuple[ColumnPath, ...]


@dataclass(frozen=True)
class Star:
    """All columns of the table."""


Step = Member | Elements | Entry | Group | Star


@dataclass(frozen=True)
class ColumnPath:
    """One entry of `columns`. The first step is a `Member` or the `Star`.

    `alias` is the name of the output, or None for the name that Spark would give it.
    """

    steps: tuple[Step, ...]
    alias: str | None = None

    @property
    def is_wildcard(self) -> bool:
        """Whether the path selects all columns of the table."""
        return isinstance(self.steps[0], Star)

    @property
    def head(self) -> str:
        """The name of the first step, or an empty string for the wildcard."""
        first = self.steps[0]
        return first.name if isinstance(first, Member) else ""

    def __str__(self) -> str:
        path = render_steps(self.steps)
        return path if self.alias is None else f"{path} AS {_plain_name(self.alias)}"


def _plain_name(name: str) -> str:
    """Return a name as a path spells it: in backticks only if it needs them."""
    return name if _NAME.fullmatch(name) else quote_name(name)


def quote_name(name: str) -> str:
    """Return a name in backticks, so that Spark and the path parser take it literally."""
    return f"`{name.replace('`', '``')}`"


def member_path(path: str, name: str) -> str:
    """Return the path of a column, or of a member of the struct `path`, for messages."""
    return f"{path}.{name}" if path else name


def sql_type(kind: t.DataType) -> str:
    """Return a type as Spark DDL, with names in backticks and independent of `spark.sql.timestampType`."""
    # Imported here because the Airflow side parses paths without pyspark.
    from pyspark.sql import types as t

    match kind:
        case t.StructType():
            return f"struct<{', '.join(f'{quote_name(f.name)}: {sql_type(f.dataType)}' for f in kind.fields)}>"
        case t.ArrayType():
            return f"array<{sql_type(kind.elementType)}>"
        case t.MapType():
            return f"map<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
        case t.TimestampType():
            return "timestamp_ltz"
    return kind.simpleString()


def sql_text(text: str) -> str:
    """Return a string as a Spark SQL expression with the same value under every parser setting and variable."""
    if "'" in text or "\\" in text or "${" in text:
        return f"CAST(X'{text.encode().hex()}' AS STRING)"
    return f"'{text}'"


def render_steps(steps: Sequence[Step]) -> str:
    """Return the string that parses to these steps."""
    text = ""
    for step in steps:
        match step:
            case Member(name):
                text += f".{_plain_name(name)}" if text else _plain_name(name)
            case Elements(positions):
                text += f"[{','.join(map(str, positions))}]"
            case Entry(keys):
                text += f"[{','.join(map(_quoted_key, keys))}]"
            case Group(members):
                text += f"({', '.join(map(str, members))})"
            case Star():
                text += "*"
    return text


def _quoted_key(key: str) -> str:
    text = key.replace("'", "''")
    return f"'{text}'"


def short_name(path: ColumnPath) -> str:
    """Return the name of an output: the alias, else as in Spark the last member with the selectors after it."""
    if path.alias is not None:
        return path.alias
    last = max(at for at, step in enumerate(path.steps) if isinstance(step, Member))
    return _full_name(ColumnPath(path.steps[last:]))


def _full_name(path: ColumnPath) -> str:
    """Return the whole path as a name, for outputs with the same short name."""
    if path.alias is not None:
        return path.alias
    text = ""
    for step in path.steps:
        if isinstance(step, Member):
            text += f".{step.name}" if text else step.name
        elif isinstance(step, Elements | Entry):
            text += render_steps([step])
    return text


def output_names(paths: Sequence[ColumnPath], key: Callable[[str], str]) -> list[str]:
    """Return the names of outputs, as Spark would name them. Those with the same `key` get their whole path as name."""
    names = list(map(short_name, paths))
    counts = Counter(map(key, names))
    return [name if counts[key(name)] == 1 else _full_name(path) for name, path in zip(names, paths, strict=True)]


def parse_path(text: str) -> ColumnPath:
    """Parse one entry of `columns`.

    Raises BadSpecError with the position of the first wrong character, counted from 1.
    """
    parser = _Parser(text)
    path = parser.path(is_nested=False)
    parser.skip_blanks()
    if not parser.at_end:
        raise parser.error("expected `.`, `[`, `(`, ` AS name` or the end")
    return path


def parse_paths(columns: Sequence[str]) -> tuple[ColumnPath, ...]:
    """Parse all entries of `columns`. Entries with the same steps and output name become one."""
    if isinstance(columns, str):
        raise BadSpecError(f"columns: give a list of column paths, not the string {columns!r}")
    return tuple(dict.fromkeys(parse_path(text) for text in columns))


class _Parser:
    """A recursive descent parser of one entry of `columns`.

    path = name {`.` name | `[` digits {`,` digits} `]` | `[` string {`,` string} `]`}
           [`(` path {`,` path} `)`] [AS name]
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def error(self, problem: str) -> BadSpecError:
        actual = "the end" if self.at_end else f"{self._text[self._at]!r}"
        return BadSpecError(f"columns: {self._text!r} at character {self._at + 1}: {problem}, found {actual}")

    def skip_blanks(self) -> None:
        while not self.at_end and self._text[self._at].isspace():
            self._at += 1

    def path(self, *, is_nested: bool) -> ColumnPath:
        self.skip_blanks()
        if not is_nested and self._take("*"):
            return ColumnPath((Star(),))
        steps: list[Step] = [Member(self._name())]
        while (step := self._next_step()) is not None:
            steps.append(step)
            if isinstance(step, Group):
                break
        return ColumnPath(tuple(steps), self._alias())

    def _next_step(self) -> Step | None:
        if self._take("."):
            return Member(self._name())
        if self._take("["):
            return self._selector()
        return self._group() if self._take("(") else None

    def _alias(self) -> str | None:
        match = _AS.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return self._name()

    def _name(self) -> str:
        if match := _QUOTED.match(self._text, self._at):
            self._at = match.end()
            return match.group(1).replace("``", "`")
        if plain := _NAME.match(self._text, self._at):
            self._at = plain.end()
            return plain.group()
        raise self.error("expected a column name (put names with spaces or punctuation in backticks)")

    def _selector(self) -> Elements | Entry:
        self.skip_blanks()
        if self._text.startswith(("'", '"'), self._at):
            keys = dict.fromkeys([self._key()])
            while self._separator("]"):
                keys[self._key()] = None
            return Entry(tuple(keys))
        positions = {self._position()}
        while self._separator("]"):
            positions.add(self._position())
        return Elements(tuple(sorted(positions)))

    def _key(self) -> str:
        self.skip_blanks()
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self.error("expected a key in quotes")
        self._at = match.end()
        single, double = match.groups()
        return double.replace('""', '"') if single is None else single.replace("''", "'")

    def _position(self) -> int:
        self.skip_blanks()
        digits = _DIGITS.match(self._text, self._at)
        if digits is None or int(digits.group()) > _MAX_POSITION:
            raise self.error(f"expected an array position from 0 to {_MAX_POSITION}, or a map key in quotes")
        self._at = digits.end()
        return int(digits.group())

    def _group(self) -> Group:
        members = [self.path(is_nested=True)]
        while self._separator(")"):
            members.append(self.path(is_nested=True))
        return Group(tuple(dict.fromkeys(members)))

    def _separator(self, end: str) -> bool:
        """Consume a comma (True) or the closing character (False). Raises BadSpecError for anything else."""
        self.skip_blanks()
        if self._take(end):
            return False
        if self._take(","):
            return True
        raise self.error(f"expected `,` or `{end}`")

    def _take(self, token: str) -> bool:
        if self._text.startswith(token, self._at):
            self._at += len(token)
            return True
        return False
