"""Files of one table with different columns, and the expected table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal

from evolving_files import Row

TYPED = ("avro", "orc", "parquet")
NAMED = ("csv", "json", *TYPED)


@dataclass(frozen=True)
class Evolving:
    """Files as (DDL, rows), and the expected rows of a query over all of them, or parts of the error message.

    In an error, `{0}` is the location of the first file.
    """

    name: str
    formats: tuple[str, ...]
    files: Sequence[tuple[str, Sequence[Row]]]
    schema: str = ""
    rows: Sequence[Row] = ()
    error: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    where: str | None = None
    declared: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    on_schema_conflict: str = "error"
    on_missing_column: str = "null"


_ABC = (
    ("id string, a string", [("1", "x")]),
    ("id string, b string", [("2", "y")]),
    ("id string, a string, b string", [("3", "z", "w")]),
)
_ABC_ROWS = [("1", "x", None), ("2", None, "y"), ("3", "z", "w")]
_SUMS = (("id bigint, n int", [(1, 10)]), ("id bigint, n string", [(2, "ten")]), ("id bigint, n int", [(3, 30)]))
_INNER = (
    ("id bigint, s struct<x: int, y: string>", [(1, {"x": 1, "y": "a"}), (2, None)]),
    ("id bigint, s struct<y: string>", [(3, {"y": "b"})]),
)
_LISTED = (
    ("id bigint, l array<struct<x: int, y: string>>", [(1, [{"x": 1, "y": "a"}, None]), (2, None)]),
    ("id bigint, l array<struct<y: string>>", [(3, [{"y": "b"}])]),
)
_MAPPED = (
    ("id bigint, m map<string, struct<x: int, y: string>>", [(1, {"k": {"x": 1, "y": "a"}}), (2, None)]),
    ("id bigint, m map<string, struct<y: string>>", [(3, {"k": {"y": "b"}})]),
)

COLUMNS = (
    Evolving("columns appear and disappear", NAMED, _ABC, "id string, a string, b string", _ABC_ROWS),
    Evolving("one column is asked for", NAMED, _ABC, "b string", [(None,), ("y",), ("w",)], columns=("b",)),
    Evolving("the order asked for", NAMED, _ABC, "b string, id string",
             [(None, "1"), ("y", "2"), ("w", "3")], columns=("b", "id")),
    Evolving("a filter on a column that some files lack", NAMED, _ABC, "id string", [("3",)], columns=("id",),
             where="b = 'w'"),
    Evolving("nulls of a column that some files lack", NAMED, _ABC, "id string", [("1",)], columns=("id",),
             where="b IS NULL"),
    Evolving("columns in another order", NAMED,
             [("id string, a string", [("1", "x")]), ("a string, id string", [("y", "2")])],
             "a string, id string", [("x", "1"), ("y", "2")]),
    Evolving("names in another case", ("csv", *TYPED),
             [("id string, a string, c string", [("1", "x", "p")]), ("ID string, A string", [("2", "y")])],
             "id string, a string, c string", [("1", "x", "p"), ("2", "y", None)]),
    Evolving("declared, and in no file", NAMED, [("id string", [("1",)]), ("id string", [("2",)])],
             "id string, more string", [("1", None), ("2", None)], declared="id string, more string"),
    Evolving("declared in another order", NAMED, _ABC, "b string, id string",
             [(None, "1"), ("y", "2"), ("w", "3")], declared="b string, id string"),
    Evolving("a missing column is an error", NAMED, _ABC, error=("column a is missing in {1}", "on_missing_column"),
             columns=("a",), on_missing_column="error"),
    Evolving("a declared column that is missing is an error", NAMED, _ABC, error=("column more is missing in {",),
             columns=("more",), declared="id string, more string", on_missing_column="error"),
    Evolving("columns that are not requested may be missing", NAMED, _ABC, "id string", [("1",), ("2",), ("3",)],
             columns=("id",), on_missing_column="error"),
    Evolving("a name that no file has", NAMED, _ABC, error=("there is no column 'c'",), columns=("c",)),
    Evolving("implicit columns of files that differ", NAMED, _ABC, "a string, dir0 string",
             [("x", None), (None, None), ("z", None)], columns=("a", "dir0")),
)  # fmt: skip

MEMBERS = (
    Evolving("a struct lacks a member", ("json", *TYPED), _INNER, "x int, y string",
             [(1, "a"), (None, None), (None, "b")], columns=("s.x", "s.y"),
             declared="id bigint, s struct<x: int, y: string>"),
    Evolving("a struct lacks a member, not declared", TYPED, _INNER, "id bigint, s struct<x: int, y: string>",
             [(1, (1, "a")), (2, None), (3, (None, "b"))]),
    Evolving("the structs of an array lack a member", TYPED, _LISTED,
             "id bigint, l array<struct<x: int, y: string>>",
             [(1, [(1, "a"), None]), (2, None), (3, [(None, "b")])]),
    Evolving("a member of all elements that some files lack", TYPED, _LISTED, "x array<int>",
             [([1, None],), (None,), ([None],)], columns=("l.x",)),
    Evolving("the values of a map lack a member", TYPED, _MAPPED,
             "id bigint, m map<string, struct<x: int, y: string>>",
             [(1, {"k": (1, "a")}), (2, None), (3, {"k": (None, "b")})]),
    Evolving("a member of an entry that some files lack", TYPED, _MAPPED, "x int", [(1,), (None,), (None,)],
             columns=("m['k'].x",)),
    Evolving("a missing member is an error", TYPED, _INNER, error=("column s.x is missing in {1}",),
             columns=("s.x",), on_missing_column="error"),
    Evolving("a member that is not requested may be missing", TYPED, _INNER, "y string", [("a",), (None,), ("b",)],
             columns=("s.y",), on_missing_column="error"),
    Evolving("JSON: nested members appear", ("json",), _INNER, "id bigint, s struct<x: bigint, y: string>",
             [(1, (1, "a")), (2, None), (3, (None, "b"))]),
    Evolving("JSON: members of elements appear", ("json",), _LISTED,
             "id bigint, l array<struct<x: bigint, y: string>>",
             [(1, [(1, "a"), None]), (2, None), (3, [(None, "b")])]),
)  # fmt: skip

WIDER = (
    Evolving("int to long", TYPED, [("a int", [(1,)]), ("a bigint", [(2**40,)])], "a bigint", [(1,), (2**40,)]),
    Evolving("float to double", TYPED, [("a float", [(1.5,)]), ("a double", [(0.1,)])], "a double", [(1.5,), (0.1,)]),
    Evolving("int to double", TYPED, [("a int", [(7,)]), ("a double", [(0.1,)])], "a double", [(7.0,), (0.1,)]),
    Evolving("decimals", TYPED, [("a decimal(5,2)", [(Decimal("1.25"),)]), ("a decimal(12,4)", [(Decimal("0.5"),)])],
             "a decimal(12,4)", [(Decimal("1.2500"),), (Decimal("0.5000"),)]),
    Evolving("date to timestamp", TYPED,
             [("a date", [(date(2024, 1, 2),)]), ("a timestamp", [(datetime(2024, 1, 3, 4),)])],
             "a timestamp", [(datetime(2024, 1, 2),), (datetime(2024, 1, 3, 4),)]),
    Evolving("inside a struct", TYPED, [("s struct<a: int>", [({"a": 1},)]), ("s struct<a: bigint>", [({"a": 2},)])],
             "s struct<a: bigint>", [((1,),), ((2,),)]),
    Evolving("inside an array", TYPED, [("l array<int>", [([1, None],)]), ("l array<double>", [([0.5],)])],
             "l array<double>", [([1.0, None],), ([0.5],)]),
    Evolving("inside a map", TYPED, [("m map<string,int>", [({"k": 1},)]), ("m map<string,bigint>", [({"k": 2},)])],
             "m map<string,bigint>", [({"k": 1},), ({"k": 2},)]),
    Evolving("a filter over a wider column", TYPED, [("a int, b int", [(1, 5)]), ("a bigint, b int", [(2**40, 6)])],
             "b int", [(6,)], columns=("b",), where="a > 1000"),
    Evolving("declared wider than the files", TYPED, [("a int", [(1,)]), ("a int", [(2,)])], "a bigint",
             [(1,), (2,)], declared="a bigint", on_schema_conflict="widen"),
    Evolving("JSON: numbers", ("json",), [("a bigint", [(1,)]), ("a double", [(0.5,)])], "a double", [(1.0,), (0.5,)]),
    Evolving("JSON: nulls and text", ("json",), [("a string", [(None,)]), ("a string", [("x",)])], "a string",
             [(None,), ("x",)]),
    Evolving("CSV: numbers", ("csv",), [("a int", [(1,)]), ("a double", [(0.5,)])], "a double", [(1.0,), (0.5,)],
             options={"inferSchema": "true"}),
)  # fmt: skip

CONFLICTS = (
    Evolving("a conflict", TYPED, _SUMS, error=("column n is", "int in {", "string in {", "on_schema_conflict")),
    Evolving("a conflict becomes text", TYPED, _SUMS, "id bigint, n string", [(1, "10"), (2, "ten"), (3, "30")],
             on_schema_conflict="widen"),
    Evolving("a conflict becomes null", TYPED, _SUMS, "id bigint, n int", [(1, 10), (2, None), (3, 30)],
             on_schema_conflict="null"),
    Evolving("a conflict in a struct", TYPED,
             [("s struct<a: int>", [({"a": 1},)]), ("s struct<a: boolean>", [({"a": True},)])],
             error=("column s.a is", "boolean in {1}", "int in {0}")),
    Evolving("a conflict of kinds", TYPED, [("a int", [(1,)]), ("a array<int>", [([1],)])],
             error=("column a is", "int in {0}", "array<int> in {1}")),
    Evolving("a conflict of kinds becomes null", TYPED,
             [("id int, a int", [(1, 1)]), ("id int, a array<int>", [(2, [1])]), ("id int, a int", [(3, 3)])],
             "id int, a int", [(1, 1), (2, None), (3, 3)], on_schema_conflict="null"),
    Evolving("a file has nothing but conflicts", TYPED,
             [("n int", [(1,)]), ("n string", [("b",), ("c",)]), ("n int", [(3,)])],
             "n int", [(1,), (None,), (None,), (3,)], on_schema_conflict="null"),
    Evolving("declared otherwise", TYPED, _SUMS, "id bigint, n int", [(1, 10), (2, None), (3, 30)],
             declared="id bigint, n int", on_schema_conflict="null"),
    Evolving("declared otherwise, and no way", TYPED, [("n boolean", [(True,)]), ("n int", [(1,)])],
             error=("column n is boolean in {0} and int in the declared schema",),
             declared="n int", on_schema_conflict="widen"),
    Evolving("JSON: a conflict", ("json",), _SUMS, error=("column n is", "bigint in {", "string in {1}")),
    Evolving("JSON: a conflict becomes text", ("json",), _SUMS, "id bigint, n string",
             [(1, "10"), (2, "ten"), (3, "30")], on_schema_conflict="widen"),
    Evolving("JSON: a conflict becomes null", ("json",), _SUMS, "id bigint, n bigint",
             [(1, 10), (2, None), (3, 30)], on_schema_conflict="null"),
    Evolving("CSV: a conflict", ("csv",), _SUMS, error=("column n is", "int in {", "string in {1}"),
             options={"inferSchema": "true"}),
    Evolving("CSV: a conflict becomes text", ("csv",), _SUMS, "id int, n string", [(1, "10"), (2, "ten"), (3, "30")],
             options={"inferSchema": "true"}, on_schema_conflict="widen"),
    Evolving("CSV: a conflict becomes null", ("csv",), _SUMS, "id int, n int", [(1, 10), (2, None), (3, 30)],
             options={"inferSchema": "true"}, on_schema_conflict="null"),
)  # fmt: skip

EVERY_ORDER = (
    Evolving("columns", NAMED, _ABC, "id string, a string, b string", _ABC_ROWS),
    Evolving("columns in other orders and spellings", ("csv", *TYPED),
             [("a string, B string, c string", [("1", "x", "p")]), ("c string, A string", [("q", "2")]),
              ("b string, C string, a string", [("z", "r", "3")])],
             "a string, B string, c string", [("1", "x", "p"), ("2", None, "q"), ("3", "z", "r")]),
    Evolving("a missing column is an error", NAMED, _ABC, error=("column a is missing in {1}",), columns=("a",),
             on_missing_column="error"),
    Evolving("integers and fractions", TYPED,
             [("a int", [(7,)]), ("a float", [(1.5,)]), ("a double", [(0.1,)])], "a double", [(7.0,), (1.5,), (0.1,)]),
    Evolving("integers", TYPED, [("a int", [(7,)]), ("a bigint", [(2**40,)]), ("b int", [(1,)])],
             "a bigint, b int", [(7, None), (2**40, None), (None, 1)]),
    Evolving("decimals", TYPED,
             [("a decimal(5,2)", [(Decimal("1.25"),)]), ("a decimal(12,4)", [(Decimal("0.5"),)]), ("a int", [(3,)])],
             "a decimal(14,4)", [(Decimal("1.2500"),), (Decimal("0.5000"),), (Decimal("3.0000"),)]),
    Evolving("dates and times", TYPED,
             [("a date", [(date(2024, 1, 2),)]), ("a timestamp", [(datetime(2024, 1, 3, 4),)]), ("b int", [(1,)])],
             "a timestamp, b int", [(datetime(2024, 1, 2), None), (datetime(2024, 1, 3, 4), None), (None, 1)]),
    Evolving("members of a struct", TYPED,
             [*_INNER, ("id bigint, s struct<z: int, x: bigint>", [(4, {"z": 5, "x": 2**40})])],
             "id bigint, s struct<x: bigint, y: string, z: int>",
             [(1, (1, "a", None)), (2, None), (3, (None, "b", None)), (4, (2**40, None, 5))]),
    Evolving("members of the structs of an array", TYPED, [*_LISTED, ("id bigint", [(4,)])],
             "id bigint, l array<struct<x: int, y: string>>",
             [(1, [(1, "a"), None]), (2, None), (3, [(None, "b")]), (4, None)]),
    Evolving("members of the values of a map", TYPED, [*_MAPPED, ("id bigint", [(4,)])],
             "id bigint, m map<string, struct<x: int, y: string>>",
             [(1, {"k": (1, "a")}), (2, None), (3, {"k": (None, "b")}), (4, None)]),
    Evolving("a conflict", TYPED, _SUMS, error=("column n is", "int in {", "string in {1}")),
    Evolving("a conflict becomes text", TYPED, _SUMS, "id bigint, n string", [(1, "10"), (2, "ten"), (3, "30")],
             on_schema_conflict="widen"),
    Evolving("a conflict becomes null", TYPED, _SUMS, "id bigint, n int", [(1, 10), (2, None), (3, 30)],
             on_schema_conflict="null"),
    Evolving("three types become null", TYPED,
             [("id int, n int", [(1, 1)]), ("id int, n string", [(2, "b")]), ("id int, n boolean", [(3, True)])],
             "id int, n boolean", [(1, None), (2, None), (3, True)], on_schema_conflict="null"),
    Evolving("JSON: members and numbers", ("json",), [*_INNER, ("s struct<x: double>", [({"x": 0.5},)])],
             "id bigint, s struct<x: double, y: string>",
             [(1, (1.0, "a")), (2, None), (3, (None, "b")), (None, (0.5, None))]),
    Evolving("JSON: a conflict", ("json",), _SUMS, error=("column n is", "bigint in {", "string in {1}")),
    Evolving("CSV: a conflict becomes null", ("csv",), _SUMS, "id int, n int", [(1, 10), (2, None), (3, 30)],
             options={"inferSchema": "true"}, on_schema_conflict="null"),
)  # fmt: skip
"""Three files each, for all their orders: one case of every kind."""
