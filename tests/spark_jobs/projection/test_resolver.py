"""Column paths become outputs with names, types and SQL, or errors that suggest names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructType

from pushdown_spark.errors import BadSpecError, KindMismatchError, UnknownColumnError
from pushdown_spark.expressions.names import EXACT_NAMES
from pushdown_spark.projection.path_expressions import PathContext
from pushdown_spark.projection.resolver import resolve

DETAIL = StructType().add("code", IntegerType()).add("text", StringType())
EVENT = StructType().add("type", StringType()).add("Detail", DETAIL)
ITEM = StructType().add("sku", StringType()).add("tags", ArrayType(StringType()))
SCHEMA = (
    StructType()
    .add("user_id", LongType())
    .add("event", EVENT)
    .add("arr", ArrayType(IntegerType()))
    .add("items", ArrayType(ITEM))
    .add("grid", ArrayType(ArrayType(IntegerType())))
    .add("m", MapType(StringType(), IntegerType()))
    .add("odd name.x", StringType())
    .add("type", StringType())
)
TABLE = PathContext(SCHEMA)

ROWS = [
    (
        1,
        ("buy", (7, "seven")),
        [10, 11, 12],
        [("s1", ["t1", "t2"]), None],
        [[1, 2], [3]],
        {"k": 1},
        "odd",
        "top",
    ),
    (2, None, None, None, None, None, None, None),
    (3, (None, None), [], [], [], {}, "", ""),
]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA)


def select_rows(
    frame: DataFrame, columns: list[str] | None, depth: Callable[[], int] | None = None
) -> list[tuple[object, ...]]:
    """Return the rows of a projection, and check the names and types of its outputs."""
    projection = resolve(columns, PathContext(frame.schema, depth=depth))
    result = frame.selectExpr(*(output.select_item for output in projection.outputs))
    assert result.columns == [output.name for output in projection.outputs]
    assert [f.dataType.simpleString() for f in result.schema.fields] == [
        output.data_type.simpleString() for output in projection.outputs
    ]
    return [tuple(row) for row in result.collect()]


def test_none_and_wildcard_select_the_schema(frame: DataFrame) -> None:
    assert resolve(None, TABLE) == resolve(["*"], TABLE)
    assert resolve(["*", "USER_ID"], TABLE).table_columns == tuple(SCHEMA.fieldNames())
    assert select_rows(frame, None) == [tuple(row) for row in frame.collect()]


def test_empty_list_selects_nothing() -> None:
    projection = resolve([], TABLE)
    assert (projection.outputs, projection.table_columns, str(projection.tree)) == ((), (), "")


@pytest.mark.parametrize(
    ("columns", "names", "rows"),
    [
        (["USER_ID"], ["USER_ID"], [(1,), (2,), (3,)]),
        (["event.Type"], ["Type"], [("buy",), (None,), (None,)]),
        (["event.type", "type"], ["event.type", "type"], [("buy", "top"), (None, None), (None, "")]),
        (["event.detail.code"], ["code"], [(7,), (None,), (None,)]),
        (["arr[2]"], ["arr[2]"], [(12,), (None,), (None,)]),
        (["arr[2,0]"], ["arr[0,2]"], [([10, 12],), (None,), ([None, None],)]),
        (["grid[0][1]"], ["grid[0][1]"], [(2,), (None,), (None,)]),
        (["items.sku"], ["sku"], [(["s1", None],), (None,), ([],)]),
        (["items[0].sku", "items[1].sku"], ["items[0].sku", "items[1].sku"], [("s1", None), (None,) * 2, (None,) * 2]),
        (["items[0].tags[1]"], ["tags[1]"], [("t2",), (None,), (None,)]),
        (["`odd name.x`"], ["odd name.x"], [("odd",), (None,), ("",)]),
        (["m"], ["m"], [({"k": 1},), (None,), ({},)]),
    ],
)
def test_paths_select_their_values_under_their_last_name(
    frame: DataFrame, columns: list[str], names: list[str], rows: list[tuple[object, ...]]
) -> None:
    assert [output.name for output in resolve(columns, TABLE).outputs] == names
    assert select_rows(frame, columns) == rows


def test_groups_select_struct_members(frame: DataFrame) -> None:
    rows = select_rows(frame, ["event(type, detail(text))", "items(tags[0])"])
    assert rows == [
        (("buy", ("seven",)), [("t1",), None]),
        (None, None),
        ((None, None), []),
    ]


def test_position_beyond_the_end_is_null_in_ansi_mode(frame: DataFrame, spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert select_rows(frame, ["arr[99]", "arr[0,99]"])[0] == (None, [10, None])


def test_table_columns_have_the_order_of_the_schema() -> None:
    projection = resolve(["type", "items[1].sku", "event.type", "event.DETAIL.code", "dir0", "FileName"], TABLE)
    assert projection.table_columns == ("event", "items", "type")
    assert str(projection.tree) == "type, items(sku), event(type, Detail(code))"
    assert projection.implicit_columns == ("dir0", "filename")
    assert [output.select_item for output in projection.outputs[-2:]] == [
        "`dir0` AS `dir0`",
        "`filename` AS `FileName`",
    ]


def test_directory_deeper_than_any_file_is_null(frame: DataFrame) -> None:
    projection = resolve(["dir2"], PathContext(SCHEMA, depth=lambda: 2))
    assert projection.outputs[0].expression == "CAST(NULL AS string)"
    assert projection.outputs[0].data_type == StringType()
    assert projection.implicit_columns == ()
    assert projection.notes == ("dir2 is null: no file lies 3 directories deep",)
    assert select_rows(frame, ["dir2"], depth=lambda: 2) == [(None,)] * 3


@pytest.mark.usefixtures("spark")
def test_table_column_takes_precedence_over_implicit_column() -> None:
    schema = StructType.fromDDL("Filename string, dir0 struct<x:int>")
    projection = resolve(["filename", "dir0.x", "dir1"], PathContext(schema, depth=lambda: 2))
    assert projection.table_columns == ("Filename", "dir0")
    assert projection.implicit_columns == ("dir1",)
    assert projection.notes == ("filename is a column of the table, so it is not the implicit column of that name",)
    assert resolve(["filename"], PathContext(schema, name_rule=EXACT_NAMES)).implicit_columns == ("filename",)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("user_idd", "columns: there is no column 'user_idd'; did you mean user_id?"),
        ("code", "columns: there is no column 'code'; did you mean event.Detail.code?"),
        ("event.typ", "columns 'event.typ': there is no column 'typ'; did you mean type?"),
        ("file_name", "columns: there is no column 'file_name'; did you mean filename?"),
        ("dir0.x", "columns 'dir0.x': there is no column 'dir0'; did you mean dir0?"),
        ("zzz", "columns: there is no column 'zzz'; the columns are user_id, event,"),
        ("items(sku, tag)", "columns 'items(sku, tag)': there is no column 'tag'; did you mean tags?"),
    ],
)
def test_unknown_column_suggests_similar_names(column: str, message: str) -> None:
    with pytest.raises(UnknownColumnError) as error:
        resolve([column], TABLE)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("user_id.x", "member 'x' of a bigint"),
        ("m[0]", "position 0 of a map<string,int>"),
        ("m(k)", "members of a map<string,int>"),
        ("event['type']", "key 'type' of a struct<"),
        ("arr['k']", "key 'k' of a array<int>"),
        ("grid.x", "member 'x' of a array<array<int>>"),
        ("event[0]", "position 0 of a struct<"),
        ("arr[0][1]", "position 1 of a int"),
        ("type(x)", "members of a string"),
    ],
)
def test_step_that_the_type_does_not_support_raises(column: str, message: str) -> None:
    with pytest.raises(KindMismatchError, match="only a") as error:
        resolve([column], TABLE)
    assert message in str(error.value)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "columns", [["event(type)", "event(detail)"], ["event", "event(type)"], ["items(sku, sku[0], SKU)"]]
)
def test_duplicate_output_names_raise(columns: list[str]) -> None:
    schema = StructType.fromDDL("event struct<type:string,detail:string>, items struct<sku:array<int>>")
    with pytest.raises(BadSpecError, match="named"):
        resolve(columns, PathContext(schema))


@pytest.mark.usefixtures("spark")
def test_names_are_resolved_with_case_in_case_sensitive_sessions() -> None:
    schema = StructType.fromDDL("a int, A string")
    assert resolve(["A"], PathContext(schema, name_rule=EXACT_NAMES)).table_columns == ("A",)
    assert len(resolve(["*"], PathContext(schema, name_rule=EXACT_NAMES)).outputs) == 2
    with pytest.raises(UnknownColumnError):
        resolve(["USER_ID"], PathContext(SCHEMA, name_rule=EXACT_NAMES))
