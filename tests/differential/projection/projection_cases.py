"""Requests to the tables of the projection cases, and the expected results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial

from projection_tables import FLAT, NESTED, Values


@dataclass(frozen=True)
class ProjectionCase:
    """Requested columns of a table, and the expected schema and rows in any order.

    `spark` are the items of Spark's own SELECT. By default these are the columns, and they are empty if Spark does not
    support the request.
    """

    table: str
    columns: tuple[str, ...] | None
    schema: str
    rows: tuple[Values, ...]
    spark: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """An identifier of the case."""
        return f"{self.table}: {'everything' if self.columns is None else '; '.join(self.columns)}"

    @property
    def select(self) -> tuple[str, ...]:
        """Spark's items."""
        return (self.columns or ("*",)) if self.spark is None else self.spark


def case(table: str, columns: str, schema: str, *values: object, spark: str | None = None) -> ProjectionCase:
    """Return a case. Columns and items are separated by `;`, and rows of one plain column need no tuple."""
    items = None if spark is None else tuple(filter(None, spark.split("; ")))
    rows = tuple(value if isinstance(value, tuple) else (value,) for value in values)
    return ProjectionCase(table, tuple(columns.split("; ")), schema, rows, items)


nested = partial(case, "nested")
flat = partial(case, "flat")


def _everything(rows: Sequence[Sequence[Values]]) -> tuple[Values, ...]:
    return tuple(row for file in rows for row in file)


ADA, CY = ("Oslo", 150, (59.5, 10.75, 23)), ("Rome", None, None)
FIRST, SECOND = (date(2024, 1, 2), [10, 11], (9, 30)), (date(2024, 1, 3), [], None)
GEO = "struct<lat: double, lon: double, alt: int>"
VISIT = "struct<day: date, pages: array<int>, at: struct<hour: int, minute: int>>"

NAMES_AND_MEMBERS = (
    ProjectionCase("nested", None, NESTED.schema, _everything(tuple(NESTED.files.values()))),
    ProjectionCase("nested", ("*",), NESTED.schema, _everything(tuple(NESTED.files.values()))),
    nested("id", "id bigint", 1, 2, 3),
    nested("name; id", "name string, id bigint", ("Ada", 1), (None, 2), ("Cy", 3)),
    nested("ID", "ID bigint", 1, 2, 3),
    nested("mixed", "mixed int", 7, None, 0),
    nested("id; id; ID", "id bigint", 1, 2, 3, spark="id"),
    nested("id AS number", "number bigint", 1, 2, 3),
    nested("id; id AS again", "id bigint, again bigint", (1, 1), (2, 2), (3, 3)),
    nested("id as `odd name`", "`odd name` bigint", 1, 2, 3),
    nested("id AS name; name AS id", "name bigint, id string", (1, "Ada"), (2, None), (3, "Cy")),
    nested("place", f"place struct<city: string, zip: int, geo: {GEO}>", (ADA,), None, (CY,)),
    nested("place.city", "city string", "Oslo", None, "Rome"),
    nested("PLACE.City", "City string", "Oslo", None, "Rome"),
    nested("`place`.`city`", "city string", "Oslo", None, "Rome"),
    nested("place.geo", f"geo {GEO}", ((59.5, 10.75, 23),), None, None),
    nested("place.geo.alt", "alt int", 23, None, None),
    nested("place.zip; place.geo.lon", "zip int, lon double", (150, 10.75), (None, None), (None, None)),
    nested("place.geo.lon; place.zip", "lon double, zip int", (10.75, 150), (None, None), (None, None)),
    nested("place.city AS town; name", "town string, name string", ("Oslo", "Ada"), (None, None), ("Rome", "Cy")),
    nested("place.city; place", f"city string, place struct<city: string, zip: int, geo: {GEO}>",
           ("Oslo", ADA), (None, None), ("Rome", CY)),
    nested("place(city)", "place struct<city: string>", (("Oslo",),), None, (("Rome",),),
           spark="if(place IS NULL, NULL, struct(place.city)) AS place"),
    nested("place(zip, city)", "place struct<zip: int, city: string>", ((150, "Oslo"),), None, ((None, "Rome"),),
           spark="if(place IS NULL, NULL, struct(place.zip, place.city)) AS place"),
    nested("place(geo(alt, lat))", "place struct<geo: struct<alt: int, lat: double>>", (((23, 59.5),),), None,
           ((None,),), spark=""),
    nested("place(geo.alt, city)", "place struct<alt: int, city: string>", ((23, "Oslo"),), None, ((None, "Rome"),),
           spark="if(place IS NULL, NULL, struct(place.geo.alt, place.city)) AS place"),
    nested("place(city AS town)", "place struct<town: string>", (("Oslo",),), None, (("Rome",),), spark=""),
    nested("place(city) AS home", "home struct<city: string>", (("Oslo",),), None, (("Rome",),), spark=""),
    nested("place.geo(alt)", "geo struct<alt: int>", ((23,),), None, None, spark=""),
    nested("place(city); place.zip", "place struct<city: string>, zip int", (("Oslo",), 150), (None, None),
           (("Rome",), None), spark=""),
    nested("place.city; place.city AS town; place.CITY", "city string, town string",
           ("Oslo", "Oslo"), (None, None), ("Rome", "Rome"), spark="place.city; place.city AS town"),
)  # fmt: skip

ARRAYS = (
    nested("tags", "tags array<string>", ["a", "b", "c"], None, ["x", None]),
    nested("tags[0]", "`tags[0]` string", "a", None, "x"),
    nested("tags[2]", "`tags[2]` string", "c", None, None, spark="get(tags, 2) AS `tags[2]`"),
    nested("tags[99]", "`tags[99]` string", None, None, None, spark="get(tags, 99) AS `tags[99]`"),
    nested("tags[0] AS first", "first string", "a", None, "x"),
    nested("tags[2]; tags[0]; tags[1]", "`tags[2]` string, `tags[0]` string, `tags[1]` string",
           ("c", "a", "b"), (None, None, None), (None, "x", None),
           spark="get(tags, 2) AS `tags[2]`; tags[0]; tags[1]"),
    nested("tags[0, 2]", "`tags[0,2]` array<string>", ["a", "c"], None, ["x", None], spark=""),
    nested("tags[2,0,2]", "`tags[0,2]` array<string>", ["a", "c"], None, ["x", None], spark=""),
    nested("tags[1]; tags", "`tags[1]` string, tags array<string>", ("b", ["a", "b", "c"]), (None, None),
           (None, ["x", None])),
    nested("grid", "grid array<array<int>>", [[1, 2], [3]], None, [[], None, [4]]),
    nested("grid[0]", "`grid[0]` array<int>", [1, 2], None, []),
    nested("grid[0][1]", "`grid[0][1]` int", 2, None, None, spark="get(get(grid, 0), 1) AS `grid[0][1]`"),
    nested("grid[2][0]; id", "`grid[2][0]` int, id bigint", (None, 1), (None, 2), (4, 3),
           spark="get(get(grid, 2), 0) AS `grid[2][0]`; id"),
    nested("visits", f"visits array<{VISIT}>", [FIRST, SECOND], None, [None, (None, None, (7, None))]),
    nested("visits.day", "day array<date>", [date(2024, 1, 2), date(2024, 1, 3)], None, [None, None]),
    nested("visits.at.hour", "hour array<int>", [9, None], None, [None, 7],
           spark="transform(visits, v -> v.at.hour) AS hour"),
    nested("visits.pages", "pages array<array<int>>", [[10, 11], []], None, [None, None]),
    nested("visits[0].day", "day date", date(2024, 1, 2), None, None),
    nested("visits[0].day; visits[1].day", "`visits[0].day` date, `visits[1].day` date",
           (date(2024, 1, 2), date(2024, 1, 3)), (None, None), (None, None), spark=""),
    nested("visits[1].at.hour", "hour int", None, None, 7),
    nested("visits[1].at", "at struct<hour: int, minute: int>", None, None, ((7, None),)),
    nested("visits[0].pages[1]", "`pages[1]` int", 11, None, None, spark="get(visits[0].pages, 1) AS `pages[1]`"),
    nested("visits[0,1].day", "day array<date>", [date(2024, 1, 2), date(2024, 1, 3)], None, [None, None], spark=""),
    nested("visits(day)", "visits array<struct<day: date>>", [(date(2024, 1, 2),), (date(2024, 1, 3),)], None,
           [None, (None,)], spark=""),
    nested("visits(at(minute), day)", "visits array<struct<at: struct<minute: int>, day: date>>",
           [((30,), date(2024, 1, 2)), (None, date(2024, 1, 3))], None, [None, ((None,), None)], spark=""),
    nested("visits[0](day)", "`visits[0]` struct<day: date>", ((date(2024, 1, 2),),), None, None, spark=""),
    nested("visits.at(hour)", "at array<struct<hour: int>>", [(9,), None], None, [None, (7,)], spark=""),
    nested("visits.day AS days; tags[0] AS tag", "days array<date>, tag string",
           ([date(2024, 1, 2), date(2024, 1, 3)], "a"), (None, None), ([None, None], "x")),
)  # fmt: skip

MAPS = (
    nested("scores", "scores map<string, int>", {"math": 5, "art": 3}, None, {"art": 0}),
    nested("scores['art']", "`scores['art']` int", 3, None, 0, spark="scores['art'] AS `scores['art']`"),
    nested('scores["art"]', "`scores['art']` int", 3, None, 0, spark="scores['art'] AS `scores['art']`"),
    nested("scores.art", "art int", 3, None, 0),
    nested("scores['none']", "`scores['none']` int", None, None, None, spark="scores['none'] AS `scores['none']`"),
    nested("scores['Art']", "`scores['Art']` int", None, None, None, spark="scores['Art'] AS `scores['Art']`"),
    nested("scores['art', 'math']", "`scores['art','math']` array<int>", [3, 5], None, [0, None], spark=""),
    nested("scores['math']; scores['art']; scores", "`scores['math']` int, `scores['art']` int, scores map<string,int>",
           (5, 3, {"math": 5, "art": 3}), (None, None, None), (None, 0, {"art": 0}), spark=""),
    nested("scores['art'] AS art", "art int", 3, None, 0),
    nested("scores['it''s']", "`scores['it''s']` int", None, None, None, spark=""),
    nested("shops['main']", "`shops['main']` struct<open: int, close: int>", ((8, 18),), None, None,
           spark="shops['main'] AS `shops['main']`"),
    nested("shops['main'].open", "open int", 8, None, None),
    nested("shops['side'].open", "open int", None, None, 9),
    nested("shops['side'](close)", "`shops['side']` struct<close: int>", None, None, ((None,),), spark=""),
    nested("shops['main'].open AS opens; id", "opens int, id bigint", (8, 1), (None, 2), (None, 3)),
)  # fmt: skip

FLATS = (
    ProjectionCase("flat", None, FLAT.schema, _everything(tuple(FLAT.files.values()))),
    flat("*", FLAT.schema, *_everything(tuple(FLAT.files.values()))),
    flat("name", "name string", "Ada", None, "Cy"),
    flat("active; id", "active boolean, id bigint", (True, 1), (None, 2), (False, 3)),
    flat("price", "price decimal(10,2)", Decimal("12.50"), None, Decimal("-0.01")),
    flat("born; price; id", "born date, price decimal(10,2), id bigint",
         (date(2000, 2, 29), Decimal("12.50"), 1), (None, None, 2), (date(1999, 12, 31), Decimal("-0.01"), 3)),
    flat("NAME; Born", "NAME string, Born date", ("Ada", date(2000, 2, 29)), (None, None), ("Cy", date(1999, 12, 31))),
    flat("id AS n; id", "n bigint, id bigint", (1, 1), (2, 2), (3, 3)),
    flat("*; id AS again", f"{FLAT.schema}, again bigint",
         *((*row, row[0]) for row in _everything(tuple(FLAT.files.values()))), spark="*; id AS again"),
    flat("id; *", FLAT.schema, *_everything(tuple(FLAT.files.values())), spark="*"),
    flat("born; *", "born date, id bigint, name string, price decimal(10,2), active boolean, suffix string",
         *((row[3], *row[:3], *row[4:]) for row in _everything(tuple(FLAT.files.values()))), spark=""),
    flat("suffix", "suffix string", "s1", None, "s3"),
)  # fmt: skip

QUOTED = (
    ProjectionCase("odd", ("`full name`",), "`full name` string", (("n1",), (None,))),
    ProjectionCase("odd", ("`a.b`",), "`a.b` string", (("d1",), ("d2",))),
    ProjectionCase("odd", ("`x,y`", "id"), "`x,y` string, id bigint", (("c1", 1), (None, 2))),
    ProjectionCase("ticks", ("`tick``s`",), "`tick``s` string", (("t1",), ("t2",))),
    ProjectionCase("odd", ("`[0]`",), "`[0]` string", (("z1",), (None,))),
    ProjectionCase("odd", ("`*`",), "`*` string", (("w1",), ("w2",))),
    ProjectionCase("odd", ("`A.B` AS ab",), "ab string", (("d1",), ("d2",))),
    ProjectionCase("odd", ("`full name` AS `fuller, name`",), "`fuller, name` string", (("n1",), (None,))),
)
