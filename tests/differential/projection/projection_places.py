"""Projection cases for implicit columns, partition columns and fields of lines, and rejected requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import partial

from projection_cases import ProjectionCase, case
from projection_tables import FLAT, HIVE

from pushdown_spark.contract import ErrorCode

nested = partial(case, "nested", spark="")
fields = partial(case, "fields", spark="")
hive = partial(case, "hive", spark="")
JAN, FEB = date(2024, 1, 2), date(2024, 2, 3)

IMPLICIT_COLUMNS = (
    nested("filename", "filename string", "p0.{format}", "p0.{format}", "p1.{format}"),
    nested("FileName; id", "FileName string, id bigint",
           ("p0.{format}", 1), ("p0.{format}", 2), ("p1.{format}", 3)),
    nested("filename AS source", "source string", "p0.{format}", "p0.{format}", "p1.{format}"),
    nested("filepath", "filepath string", "{place}/east/2024", "{place}/east/2024", "{place}/west"),
    nested("fqn; id", "fqn string, id bigint", ("{place}/east/2024/p0.{format}", 1),
           ("{place}/east/2024/p0.{format}", 2), ("{place}/west/p1.{format}", 3)),
    nested("dir0", "dir0 string", "east", "east", "west"),
    nested("dir1", "dir1 string", "2024", "2024", None),
    nested("dir2", "dir2 string", None, None, None),
    nested("dir9; DIR0", "dir9 string, DIR0 string", (None, "east"), (None, "east"), (None, "west")),
    nested("dir0; place.city; dir1; tags[0]", "dir0 string, city string, dir1 string, `tags[0]` string",
           ("east", "Oslo", "2024", "a"), ("east", None, "2024", None), ("west", "Rome", None, "x")),
    nested("dir0 AS top; dir0", "top string, dir0 string", ("east", "east"), ("east", "east"), ("west", "west")),
    nested("suffix", "suffix string", "s1", None, "s3"),
    nested("place(city); filename", "place struct<city: string>, filename string",
           (("Oslo",), "p0.{format}"), (None, "p0.{format}"), (("Rome",), "p1.{format}")),
    case("flat", "*; filename", f"{FLAT.schema}, filename string",
         *((*row, f"{name}.{{format}}") for name, rows in FLAT.files.items() for row in rows), spark=""),
    case("flat", "filename; name; dir0", "filename string, name string, dir0 string",
         ("p0.{format}", "Ada", None), ("p0.{format}", None, None), ("p1.{format}", "Cy", None), spark=""),
)  # fmt: skip

PARTITIONS = (
    ProjectionCase("hive", None, f"{HIVE.schema}, region string, day date, n int",
         ((1, "Ada", "eu", JAN, 7), (2, "Bo", "a b", FEB, 8), (3, None, None, JAN, 9))),
    case("hive", "region", "region string", "eu", "a b", None),
    case("hive", "day; n; id", "day date, n int, id bigint", (JAN, 7, 1), (FEB, 8, 2), (JAN, 9, 3)),
    case("hive", "Region AS area; name", "area string, name string", ("eu", "Ada"), ("a b", "Bo"), (None, None)),
    hive("suffix; n", "suffix string, n int", ("{format}", 7), ("{format}", 8), ("{format}", 9)),
    hive("dir0; region", "dir0 string, region string", ("region=eu", "eu"), ("region=a%20b", "a b"),
         ("region=__HIVE_DEFAULT_PARTITION__", None)),
    hive("filename; day; dir2", "filename string, day date, dir2 string", ("p0.{format}", JAN, "n=007"),
         ("p1.{format}", FEB, "n=8"), ("p2.{format}", JAN, "n=9")),
)  # fmt: skip

LINES = (
    ProjectionCase("fields", None, "_c0 string, _c1 string, _c2 string",
         (("1", "x", None), ("2", None, "u"), ("3", "y", "v"))),
    case("fields", "_c1", "_c1 string", "x", None, "y"),
    fields("columns", "columns array<string>", ["1", "x", None], ["2", None, "u"], ["3", "y", "v"]),
    fields("columns[0]", "`columns[0]` string", "1", "2", "3"),
    fields("COLUMNS[1]", "`COLUMNS[1]` string", "x", None, "y"),
    fields("columns[2]; columns[0]", "`columns[2]` string, `columns[0]` string", (None, "1"), ("u", "2"), ("v", "3")),
    fields("columns[2,0]", "`columns[0,2]` array<string>", ["1", None], ["2", "u"], ["3", "v"]),
    fields("columns[7]", "`columns[7]` string", None, None, None),
    fields("columns[1] AS word; dir0", "word string, dir0 string", ("x", None), (None, None), ("y", "sub")),
    fields("filename; columns[0]", "filename string, `columns[0]` string",
           ("p0.csv", "1"), ("p0.csv", "2"), ("p1.csv", "3")),
)  # fmt: skip


@dataclass(frozen=True)
class Refused:
    """Columns of a table that must be rejected, the error's code, and parts of its message."""

    table: str
    columns: tuple[str, ...]
    code: ErrorCode
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """An identifier of the case."""
        return f"{self.table}: {'; '.join(self.columns)}"


def _refusal(code: ErrorCode, table: str, columns: str, *parts: str) -> Refused:
    return Refused(table, tuple(columns.split("; ")), code, parts)


unknown = partial(_refusal, ErrorCode.UNKNOWN_COLUMN)
kind = partial(_refusal, ErrorCode.KIND_MISMATCH)
wrong = partial(_refusal, ErrorCode.BAD_SPEC)

REFUSED = (
    unknown("nested", "nme", "there is no column 'nme'", "did you mean name"),
    unknown("nested", "id; tag", "'tag'", "tags"),
    unknown("nested", "place.cty", "'place.cty'", "'cty'", "city"),
    unknown("nested", "place.geo.latt", "'latt'", "lat"),
    unknown("nested", "visits.hour", "'hour'", "at.hour"),
    unknown("nested", "place(cty)", "'place(cty)'", "city"),
    unknown("nested", "shops['main'].opn", "'opn'", "open"),
    unknown("nested", "filname", "'filname'", "filename"),
    unknown("nested", "filename.x", "'filename'"),
    unknown("nested", "dir0[0]", "'dir0'"),
    unknown("nested", "xyzzy", "the columns are id, name"),
    unknown("hive", "regio", "region"),
    kind("nested", "name[0]", "'name[0]'", "position 0 of a string", "only an array has positions"),
    kind("nested", "name.first", "'name.first'", "member 'first' of a string"),
    kind("nested", "place[0]", "'place[0]'", "position 0 of a struct<"),
    kind("nested", "tags.x", "member 'x' of a array<string>"),
    kind("nested", "tags['k']", "key 'k' of a array<string>", "only a map has keys"),
    kind("nested", "tags[0][1]", "'tags[0][1]'", "position 1 of a string"),
    kind("nested", "grid[0][0][0]", "position 0 of a int"),
    kind("nested", "grid.x", "member 'x' of a array<array<int>>"),
    kind("nested", "visits[0].day[1]", "position 1 of a date"),
    kind("nested", "visits.day.year", "member 'year' of a array<date>"),
    kind("nested", "scores[0]", "'scores[0]'", "map<string,int>"),
    kind("nested", "scores.a.b", "member 'b' of a int"),
    kind("nested", "place['city']", "key 'city' of a struct<"),
    kind("nested", "name(x)", "members of a string"),
    kind("nested", "tags(x)", "members of a string"),
    kind("nested", "scores(x)", "members of a map<string,int>"),
    kind("nested", "id.x AS y", "'id.x AS y'", "bigint", "in the declared schema"),
    kind("hive", "region.x", "member 'x' of a string"),
    kind("fields", "columns.x", "'columns.x'", "array of strings"),
    kind("fields", "columns['x']", "array of strings"),
    wrong("nested", "id AS x; name AS x", "named 'x'", "use AS"),
    wrong("nested", "id AS Name; name", "would both be named"),
    wrong("nested", "place(city, geo.lat AS city)", "two members named 'city'"),
    wrong("nested", "", "at character 1", "expected a column name"),
    wrong("nested", "place.", "'place.' at character 7"),
    wrong("nested", "place..city", "at character 7"),
    wrong("nested", "tags[", "at character 6"),
    wrong("nested", "tags[-1]", "at character 6", "array position from 0"),
    wrong("nested", "tags[0", "at character 7", "expected `,` or `]`"),
    wrong("nested", "scores['art", "at character 8"),
    wrong("nested", "`id", "at character 1"),
    wrong("nested", "place(city", "at character 11", "expected `,` or `)`"),
    wrong("nested", "place.*", "at character 7"),
    wrong("nested", "id name", "at character 4"),
    wrong("fields", "columns[0]; _c1", "columns[0]", "_c1"),
    wrong("fields", "columns; *", "columns", "*"),
    wrong("fields", "columns[65536]", "positions end at 65535"),
)
