"""The calendar of old dates and timestamps in files, and Spark's settings for it.

Spark 2 wrote dates in the hybrid of the Julian and the Gregorian calendar, and Spark 3 writes them in the proleptic
Gregorian calendar. Files of Spark name its version. Settings and options say how files of other writers are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pushdown_spark.errors import UnsupportedError

if TYPE_CHECKING:
    # Workers import this module, too.
    from pyspark.sql import SparkSession

_SPARK_VERSION = "org.apache.spark.version"
_MODES = ("CORRECTED", "LEGACY", "EXCEPTION")


@dataclass(frozen=True)
class OldValues:
    """A kind of values that Spark may convert from one calendar to another.

    From version `since` on, Spark writes them as it reads them, unless the file has the key `legacy_key`.
    """

    name: str
    since: bytes
    legacy_key: str

    def are_as_stored(self, metadata: Mapping[str, bytes], *, by_option: bool) -> bool:
        """Return whether Spark reads the values as stored, given the key-value pairs of a file.

        `by_option` is the result for files of other writers.
        """
        version = metadata.get(_SPARK_VERSION)
        return by_option if version is None else version >= self.since and self.legacy_key not in metadata

    def rebase_mode(self, spark: SparkSession, source: str, options: Mapping[str, str]) -> str:
        """Return how the source `avro` or `parquet` of Spark reads the values in files of other writers.

        `CORRECTED` reads them as stored, `LEGACY` converts them from the old calendar, `EXCEPTION` fails. For any other
        option, all files of other writers fail. The keys of options are in lower case.
        """
        option = options.get(f"{self.name}rebasemode")
        if option is not None:
            return option
        # Spark converts the setting to upper case, unlike the option. No default is passed, because Spark would return
        # it instead of its own.
        setting = spark.conf.get(f"spark.sql.{source}.{self.name}RebaseModeInRead")
        return (setting or "EXCEPTION").strip().upper()

    def is_corrected(self, spark: SparkSession, source: str, options: Mapping[str, str]) -> bool:
        """Return whether values in files of other writers are read as stored.

        Raises UnsupportedError for an option that is not a mode, which Spark's reader rejects.
        """
        mode = self.rebase_mode(spark, source, options)
        if mode not in _MODES:
            raise UnsupportedError(f"option {self.name}RebaseMode is {mode!r}, which only Spark's reader rejects")
        return mode == "CORRECTED"


DATETIMES = OldValues("datetime", b"3.0.0", "org.apache.spark.legacyDateTime")
"""Dates and timestamps."""
INT96 = OldValues("int96", b"3.1.0", "org.apache.spark.legacyINT96")
"""Timestamps that Parquet files store in 96 bits."""
