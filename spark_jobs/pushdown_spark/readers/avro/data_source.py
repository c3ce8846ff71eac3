"""`spark.read.format("pushdown_avro")`: our Avro reader as a data source of Spark's.

Spark tells such a source neither the columns that a query needs nor its LIMIT nor most predicates, so the columns are
those of the schema that is given, and the predicate is an option. PushdownSession knows all of them by itself.

Conjuncts of an ordinary `.where(...)` reach the source with the option `push_filters=true`, which is off because of
Spark 4.3: it keeps the filters of one query with the frame that was loaded, and another query over the same frame that
has no filter to push is answered with those of the first, so that rows are missing. With the option on, load a frame
anew for each query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from pushdown_spark.errors import BadSpecError, MissingPathError
from pushdown_spark.expressions.arrow_evaluator import all_of
from pushdown_spark.readers.avro.counts import AvroCount
from pushdown_spark.readers.avro.decode import AvroQuery
from pushdown_spark.readers.avro.header import read_header
from pushdown_spark.readers.avro.plan import containers, wanted_schema
from pushdown_spark.readers.avro.scan import AvroScan
from pushdown_spark.readers.avro.schema import parse_schema
from pushdown_spark.readers.avro.types import spark_schema
from pushdown_spark.readers.columnar import unknown_type
from pushdown_spark.readers.data_source import (
    TaskPartition,
    exact_filter,
    flag,
    known_options,
    local_listing,
    take_filters,
)
from pushdown_spark.readers.files import InputFile, Packing, Task, pack
from pushdown_spark.readers.storage import LOCAL

FORMAT = "pushdown_avro"
_READER_SCHEMA = "avroSchema"
_OPTIONS = ("path", "where", "avroschema", "push_filters", "case_sensitive")
_INTERVALS = "spark.sql.catalyst.type"
"""A mark of Spark's for numbers that are intervals."""


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(PushdownAvroSource)


class PushdownAvroSource(DataSource):
    """Local Avro files, of which blocks are skipped by their bytes.

    Options: `path` (a file, a directory or a glob); `where`, a predicate that all rows pass; `avroSchema` as in Spark's
    own source; `push_filters` (true or false), for which `spark.sql.python.filterPushdown.enabled` must be on as well;
    `case_sensitive` (true or false), since Spark does not tell such a source its setting of that name. Give a schema
    with the columns that are needed: others are not decoded.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> t.StructType:
        """The columns of `avroSchema`, else of the first file, as Spark would infer them."""
        text = self.options.get(_READER_SCHEMA) or read_header(_first(_files(self.options)), LOCAL).schema
        if _INTERVALS in text:
            raise BadSpecError("the files hold intervals, which only Spark reads; use format('avro')")
        return spark_schema(parse_schema(text))

    def reader(self, schema: t.StructType) -> DataSourceReader:
        """A reader of all columns of a schema. Raises BadSpecError for options that are not possible."""
        known_options(FORMAT, self.options, _OPTIONS)
        pushes = flag(self.options, "push_filters")
        return (FilterablePushdownAvroReader if pushes else PushdownAvroReader)(schema, self.options)


class PushdownAvroReader(DataSourceReader):
    """Reads the files of one scan."""

    def __init__(self, schema: t.StructType, options: Mapping[str, str]) -> None:
        for field in schema.fields:
            if unknown := unknown_type(field.dataType):
                raise BadSpecError(f"column {field.name} has type {unknown.simpleString()}, which only Spark reads")
        self._schema = schema
        self._files = _files(options)
        self._reader_schema = options.get(_READER_SCHEMA)
        self._case_sensitive = flag(options, "case_sensitive")
        where = options.get("where")
        self._filters = [] if where is None else [exact_filter(where, schema, case_sensitive=self._case_sensitive)]

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task."""
        return [TaskPartition(number) for number in range(len(self._tasks()))]

    def _tasks(self) -> tuple[Task, ...]:
        return pack(self._files, Packing(128 << 20, 4 << 20, 2))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        assert isinstance(partition, TaskPartition)
        filtered = all_of(self._filters) if self._filters else None
        query = AvroQuery(
            wanted_schema(self._schema.fields),
            filtered,
            case_sensitive=self._case_sensitive,
            reader_schema=self._reader_schema,
        )
        scan = AvroScan(self._tasks(), query, _unreported)
        yield from scan(iter([pa.RecordBatch.from_pydict({"task": [partition.number]})]))


class FilterablePushdownAvroReader(PushdownAvroReader):
    """Reads the files of one query, whose conjuncts come through `pushFilters`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- the name is Spark's
        """Take what can be evaluated over columns; give back what Spark must evaluate (again)."""
        taken, left = take_filters(filters, self._schema)
        self._filters += taken
        return left


def _unreported(number: int, counts: dict[str, AvroCount]) -> None:
    """Spark has no place for the figures of such a source's tasks."""


def _files(options: Mapping[str, str]) -> tuple[InputFile, ...]:
    return containers(local_listing(FORMAT, options), any_extension=True)


def _first(files: Sequence[InputFile]) -> str:
    """The file whose schema is taken: empty ones have none."""
    for file in files:
        if file.size:
            return file.path
    raise MissingPathError("the path has only empty files, and so no schema; give one")
