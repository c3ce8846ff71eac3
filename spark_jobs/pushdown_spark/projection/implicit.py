"""The implicit file columns: what a row knows from the path of its file (`filename`, `dir0`, ...)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pyspark.sql.types import StructType
from sqlglot import exp

from pushdown_spark.projection.paths import sql_text
from pushdown_spark.projection.tree import same_name

FILE_COLUMNS = ("filename", "filepath", "fqn", "suffix", "modified", "size")
"""Implicit columns that describe the file itself: texts, but `modified` is a timestamp and `size` a number of bytes."""

_DIRECTORY = re.compile(r"dir(0|[1-9][0-9]{0,3})", re.IGNORECASE)
_GLOB_SIGNS = re.compile(r"[*?\[{\\]")
_LOCAL_SCHEME = re.compile(r"^file:/+")


def canonical_name(name: str) -> str | None:
    """The implicit column meant by a name in any case, in lower case; None for any other name."""
    lowered = name.lower()
    return lowered if lowered in FILE_COLUMNS or _DIRECTORY.fullmatch(lowered) else None


def directory_level(name: str) -> int | None:
    """The K of a `dirK` name, None for any other name."""
    match = _DIRECTORY.fullmatch(name)
    return int(match.group(1)) if match else None


def location(uri: str) -> str:
    """A file or directory as the implicit columns show it: local ones as a bare path, others as the whole URI.

    The argument is a path as Hadoop prints it, without percent-encoding. A trailing slash is dropped.
    """
    bare = _LOCAL_SCHEME.sub("/", uri)
    return bare.rstrip("/") or "/"


def scan_root(path: str, *, is_file: bool = False) -> str:
    """The directory below which `dir0` counts, for an input path that may be a glob.

    It is the directory itself, the longest leading part without glob signs, or the parent of a plain file.
    """
    place = location(path)
    glob = _GLOB_SIGNS.search(place)
    if glob is None and not is_file:
        return place
    fixed = place if glob is None else place[: glob.start()]
    parent = fixed.rpartition("/")[0]
    return parent or ("/" if place.startswith("/") else "")


def root_of(file_uri: str, roots: Iterable[str]) -> str | None:
    """The deepest of the scan roots that holds a file, None if none does."""
    file = location(file_uri)
    holding = [root for root in map(location, roots) if file.startswith(_with_slash(root))]
    return max(holding, key=len, default=None)


def directories(file_uri: str, root: str) -> tuple[str, ...]:
    """Names of the directories between a scan root and a file, outermost first; none if the file lies elsewhere."""
    file, prefix = location(file_uri), _with_slash(location(root))
    if not file.startswith(prefix):
        return ()
    return tuple(part for part in file[len(prefix) :].split("/")[:-1] if part)


def max_depth(file_uris: Iterable[str], roots: Sequence[str]) -> int:
    """How many directories the deepest file lies below its scan root."""
    return max((len(directories(file, root_of(file, roots) or file)) for file in file_uris), default=0)


class NativeImplicitExpressions(Mapping[str, str]):
    """Spark SQL for each implicit column, taken from the `_metadata` that Spark's own file readers offer.

    `dirK` exists for every K, so the mapping iterates over the levels below `depth` only but answers any level.
    """

    def __init__(self, roots: Sequence[str], depth: int = 0) -> None:
        self._roots = sorted({location(root) for root in roots}, key=lambda root: (-len(root), root))
        self._depth = depth

    def __getitem__(self, name: str) -> str:
        canonical = canonical_name(name)
        if canonical is None:
            raise KeyError(name)
        level = directory_level(canonical)
        return self._file_column(canonical) if level is None else self._directory(level)

    def __iter__(self) -> Iterator[str]:
        yield from FILE_COLUMNS
        yield from (f"dir{level}" for level in range(self._depth))

    def __len__(self) -> int:
        return len(FILE_COLUMNS) + self._depth

    def _file_column(self, name: str) -> str:
        file = native_location()
        last_slash = f"length({file}) - locate('/', reverse({file}))"
        filename = f"substring_index({file}, '/', -1)"
        match name:
            case "fqn":
                return file
            case "filename":
                return filename
            case "filepath":
                return f"if({last_slash} = 0, '/', left({file}, {last_slash}))"
            case "modified":
                return "_metadata.file_modification_time"
            case "size":
                return "_metadata.file_size"
            case _:
                return f"if(contains({filename}, '.'), substring_index({filename}, '.', -1), NULL)"

    def _directory(self, level: int) -> str:
        if not self._roots:
            return "CAST(NULL AS STRING)"
        file = native_location()
        cases = []
        for root in self._roots:
            prefix = _with_slash(root)
            names = f"filter(split(substring({file}, {len(prefix) + 1}), '/', -1), part -> part <> '')"
            value = f"if(size({names}) - 1 > {level}, get({names}, {level}), NULL)"
            cases.append(f"WHEN startswith({file}, {sql_text(prefix)}) THEN {value}")
        return f"CASE {' '.join(cases)} END"


def native_implicit_expressions(roots: Sequence[str], depth: int = 0) -> NativeImplicitExpressions:
    """Spark SQL per implicit column for a frame read by Spark's own file reader.

    `roots` are the scan roots as `scan_root` gives them, absolute and with their scheme unless local; `depth` is the
    number of `dirK` levels to iterate over. The expressions give what `BuiltInColumns` gives for the same file.
    """
    return NativeImplicitExpressions(roots, depth)


def implicit_references(
    tree: exp.Expr,
    schema: StructType,
    *,
    case_sensitive: bool = False,
    named: Callable[[str], str | None] = canonical_name,
) -> tuple[str, ...]:
    """Implicit columns that a predicate or query mentions, by their names in frames, in order of appearance.

    `named` gives the implicit column meant by a name, None for any other name. A column of the schema wins over an
    implicit one, and `dir0.x` is data: a member of a column `dir0`.
    """
    found: dict[str, None] = {}
    given = given_names(tree)
    aliases = {alias.alias.lower() for alias in tree.find_all(exp.Alias)}
    others = {each.name.lower() for each in tree.find_all(exp.TableAlias) if not isinstance(each.parent, exp.Table)}
    for column in tree.find_all(exp.Column, bfs=False):
        name = named(column.name)
        alone = column.name.lower() if len(column.parts) == 1 else ""
        of_another = len(column.parts) > 1 and column.parts[0].name.lower() in others
        if of_another or alone in given or (alone in aliases and _sees_aliases(column)):
            continue
        if name and not any(has_column(schema, part.name, case_sensitive=case_sensitive) for part in column.parts):
            found[name] = None
    return tuple(found)


def given_names(tree: exp.Expr) -> frozenset[str]:
    """Lower-case names that a query gives to columns of its own relations."""
    names = {name.name.lower() for several in tree.find_all(exp.Aliases) for name in several.expressions}
    names |= {name.name.lower() for alias in tree.find_all(exp.TableAlias) for name in alias.columns}
    return frozenset(names)


def _sees_aliases(column: exp.Column) -> bool:
    """Whether a column stands where names of the SELECT list come first."""
    return (
        column.find_ancestor(exp.Order, exp.Having, exp.Group) is not None and column.find_ancestor(exp.Window) is None
    )


def has_column(schema: StructType, name: str, *, case_sensitive: bool = False) -> bool:
    """Whether the schema has a top-level column of this name."""
    return any(same_name(field.name, name, case_sensitive=case_sensitive) for field in schema.fields)


def native_location() -> str:
    """SQL for the file's `location`, from what Spark's readers offer.

    `url_decode` would read a plus sign as a blank, so plus signs are encoded first.
    """
    decoded = "url_decode(replace(_metadata.file_path, '+', '%2B'))"
    return f"regexp_replace({decoded}, '^file:/+', '/')"


def _with_slash(root: str) -> str:
    return root if root.endswith("/") else f"{root}/"
