"""Opens declared sources of any kind as relations."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from pushdown_spark.contract import FORMATS_WITHOUT_FILES
from pushdown_spark.relations.base import Relation
from pushdown_spark.relations.declaration import AnySource, Source
from pushdown_spark.relations.files import FileRelation
from pushdown_spark.relations.tables import open_table

_MAX_THREADS = 4
"""File relations that are opened at the same time. Opening mostly waits for listings, footers and small Spark jobs."""


def open_relation(spark: SparkSession, source: AnySource) -> Relation:
    """Open a declared source of any kind. Raises typed errors that name the parameter."""
    if isinstance(source, Source) and source.format in FORMATS_WITHOUT_FILES:
        return open_table(spark, source)
    if isinstance(source, Source):
        return FileRelation.open(spark, source)
    # The drivers of databases are loaded only if a source needs them.
    from pushdown_spark.relations.databases import DatabaseRelation

    return DatabaseRelation.open(spark, source)


def open_relations(spark: SparkSession, sources: Iterable[AnySource]) -> dict[str, Relation]:
    """Open several declared sources at the same time, and return them by name.

    Raises the error of a database relation before those of file relations, and these in the order of the sources.
    """
    declared = list(sources)
    files = [source for source in declared if isinstance(source, Source)]
    if len(files) < 2:
        return {source.name: open_relation(spark, source) for source in declared}
    open_in_thread = inheritable_thread_target(spark)(partial(open_relation, spark))
    with ThreadPoolExecutor(min(len(files), _MAX_THREADS)) as threads:
        pending = {source.name: threads.submit(open_in_thread, source) for source in files}
        # A database connection stays in the thread that opened it.
        databases = {source.name: open_relation(spark, source) for source in declared if source.name not in pending}
        return databases | {name: relation.result() for name, relation in pending.items()}
