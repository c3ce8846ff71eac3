"""What differs between the databases that take rows: their types of new columns, and their statements about tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import types as t

from pushdown_spark.databases.sql.identifiers import quote_ansi, quote_mysql
from pushdown_spark.databases.sql.remote_table import Dialect
from pushdown_spark.errors import BadSpecError


@dataclass(frozen=True, kw_only=True)
class WriteDialect:
    """The names, types and statements of one database.

    Statements take schema and table, in this order. `tables_with_prefix` takes the schema and a prefix of 17
    characters. `relation` returns kind, storage engine and comment of a table or view. `generated_columns` returns the
    columns that the database computes, `columns_without_null` those in which it would refuse NULL or replace it with
    another value. `text_collation` returns the collation of new strings, for `{collation}` in `types`. `record` adds a
    row with three columns, unless the table has its key. `insert` and `update` begin statements that fail if a row
    violates a constraint.
    """

    product: str
    types: Mapping[type[t.DataType], str]
    decimal: str
    has_arrays: bool
    quote: Callable[[str], str]
    tables_with_prefix: str
    relation: str
    generated_columns: str
    columns_without_null: str
    text_collation: str = ""
    record: str
    insert: str = "INSERT"
    update: str = "UPDATE"

    def declared_type(self, field: t.StructField) -> str:
        """Return the type of a new column. Raises BadSpecError if the database has none for the Spark type."""
        kind = field.dataType
        is_array = isinstance(kind, t.ArrayType) and self.has_arrays
        name = self._scalar_type(kind.elementType if isinstance(kind, t.ArrayType) and is_array else kind)
        if name is None:
            advice = (
                "cast it in the query" if isinstance(kind, t.NullType) else "use to_json(...) or cast it in the query"
            )
            raise BadSpecError(
                f"output_table: column {field.name} is {kind.simpleString()}, for which {self.product} has no type; "
                f"{advice}"
            )
        return f"{name}[]" if is_array else name

    def _scalar_type(self, kind: t.DataType) -> str | None:
        if isinstance(kind, t.DecimalType):
            return f"{self.decimal}({kind.precision},{kind.scale})"
        return self.types.get(type(kind))


_POSTGRESQL_TYPES: Mapping[type[t.DataType], str] = {
    t.BooleanType: "boolean",
    t.ByteType: "smallint",
    t.ShortType: "smallint",
    t.IntegerType: "integer",
    t.LongType: "bigint",
    t.FloatType: "real",
    t.DoubleType: "double precision",
    t.StringType: "text",
    t.BinaryType: "bytea",
    t.DateType: "date",
    t.TimestampType: "timestamptz",
    t.TimestampNTZType: "timestamp",
}
_MYSQL_TYPES: Mapping[type[t.DataType], str] = {
    t.BooleanType: "bit(1)",
    t.ByteType: "tinyint",
    t.ShortType: "smallint",
    t.IntegerType: "int",
    t.LongType: "bigint",
    t.FloatType: "float",
    t.DoubleType: "double",
    # Strings are equal only if their bytes are, as in Spark.
    t.StringType: "longtext CHARACTER SET utf8mb4 COLLATE {collation}",
    t.BinaryType: "longblob",
    t.DateType: "date",
    # Without NULL, older servers fill in the current time.
    t.TimestampType: "timestamp(6) NULL",
    t.TimestampNTZType: "datetime(6)",
}
_SQLITE_TYPES: Mapping[type[t.DataType], str] = {
    t.BooleanType: "boolean",
    **dict.fromkeys((t.ByteType, t.ShortType, t.IntegerType, t.LongType), "bigint"),
    t.FloatType: "real",
    t.DoubleType: "double",
    t.StringType: "text",
    t.BinaryType: "blob",
    t.DateType: "date",
    **dict.fromkeys((t.TimestampType, t.TimestampNTZType), "timestamp"),
}
_MYSQL = WriteDialect(
    product="MySQL",
    types=_MYSQL_TYPES,
    decimal="decimal",
    has_arrays=False,
    quote=quote_mysql,
    tables_with_prefix=(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND left(table_name, 17) = %s"
    ),
    relation="""
SELECT table_type, coalesce(engine, ''), coalesce(table_comment, '') FROM information_schema.tables
WHERE table_schema = %s AND table_name = %s
""",
    generated_columns="""
SELECT column_name FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s AND generation_expression <> ''
""",
    # The current time, and the next number.
    columns_without_null="""
SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s AND is_nullable = 'NO'
""",
    # In MySQL before 8.0.17, all binary collations ignore spaces at the end.
    text_collation="""
SELECT coalesce(max(collation_name), 'utf8mb4_bin') FROM information_schema.collations
WHERE collation_name IN ('utf8mb4_0900_bin', 'utf8mb4_nopad_bin')
""",
    record="INSERT IGNORE INTO {table} VALUES (%s, %s, %s)",
)
WRITE_DIALECTS = {
    Dialect.POSTGRES: WriteDialect(
        product="PostgreSQL",
        types=_POSTGRESQL_TYPES,
        decimal="numeric",
        has_arrays=True,
        quote=quote_ansi,
        tables_with_prefix=(
            "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = %s AND left(tablename, 17) = %s"
        ),
        relation="""
SELECT c.relkind::text, '', '' FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
""",
        generated_columns="""
SELECT attname FROM pg_catalog.pg_attribute WHERE (attgenerated <> '' OR attidentity = 'a') AND attrelid = (
    SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s)
""",
        # Identity columns, too. The database would refuse NULL at the commit, unless a rule or a trigger of each row
        # before INSERT (type 7) replaces it.
        columns_without_null="""
SELECT attname FROM pg_catalog.pg_attribute WHERE attnotnull AND attrelid = (
    SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
    AND NOT relhasrules AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid AND tgtype & 7 = 7))
""",
        record="INSERT INTO {table} VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
    ),
    Dialect.MYSQL: _MYSQL,
    Dialect.MARIADB: replace(_MYSQL, product="MariaDB"),
    Dialect.SQLITE: WriteDialect(
        product="SQLite",
        types=_SQLITE_TYPES,
        decimal="decimal",
        has_arrays=False,
        quote=quote_ansi,
        tables_with_prefix='SELECT name FROM pragma_table_list WHERE "schema" = %s AND substr(name, 1, 17) = %s',
        relation="SELECT type, '', '' FROM pragma_table_list WHERE \"schema\" = %s AND name = %s",
        generated_columns="SELECT name FROM pragma_table_xinfo(?2, ?1) WHERE hidden IN (2, 3)",
        # The next number, and the default of a column with ON CONFLICT REPLACE.
        columns_without_null="""
SELECT name FROM pragma_table_xinfo(?2, ?1) WHERE "notnull" OR (
    pk AND lower(type) = 'integer' AND (SELECT count(*) FROM pragma_table_xinfo(?2, ?1) WHERE pk) = 1)
""",
        record="INSERT OR IGNORE INTO {table} VALUES (%s, %s, %s)",
        # A constraint with ON CONFLICT would delete other rows, or skip the new one.
        insert="INSERT OR ABORT",
        update="UPDATE OR ABORT",
    ),
}
