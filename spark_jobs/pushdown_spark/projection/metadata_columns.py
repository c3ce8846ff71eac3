"""The former name of `implicit_columns`, for plug-ins that import it."""

from __future__ import annotations

from pushdown_spark.projection.implicit_columns import FileMetadata, ImplicitColumn, ImplicitColumns, ImplicitValue

__all__ = ["FileMetadata", "ImplicitColumn", "ImplicitColumns", "ImplicitValue"]
