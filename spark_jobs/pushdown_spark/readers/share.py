"""What a request for a whole source asks of the files of one part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from pushdown_spark.projection.alignment import Part, ddl, restricted_struct
from pushdown_spark.projection.evolution import Rules
from pushdown_spark.projection.implicit import location, root_of
from pushdown_spark.readers.files import escaped
from pushdown_spark.readers.protocol import ScanRequest, Source


@dataclass(frozen=True)
class Share:
    """Some files of a source. `inside` are the columns that directories tell; `rules` say which names are one."""

    part: Part
    inside: StructType
    root: str | None
    rules: Rules

    def source(self, whole: Source) -> Source:
        """The part as a source of its own, with the schema that its files are read with."""
        schema = StructType([*self.part.schema.fields, *self.inside.fields])
        base = {} if self.root is None else {"basepath": escaped(self.root)}
        paths = tuple(map(escaped, self.part.files))
        return replace(whole, paths=paths, schema=ddl(schema), options={**whole.options, **base})

    def delivered(self, request: ScanRequest) -> StructType:
        """What the part's frame has of the columns that are wanted."""
        there = restricted_struct(self.part.schema, request.read_schema, self.rules)
        return StructType([*there.fields, *(f for f in self.inside.fields if f.name in request.columns)])

    def request(self, whole: ScanRequest, source: Source, mentioned: frozenset[str]) -> ScanRequest:
        """The part's request. `mentioned` are the table's columns in the predicate.

        The predicate goes along only where it means the same for the part's own types; it is applied to the table's
        columns in any case.
        """
        pruned = restricted_struct(self.part.schema, whole.read_schema, self.rules)
        types = {field.name: field.dataType for field in pruned.fields}
        same = (
            whole.predicate is not None
            and whole.predicate.tree is not None
            and all(
                types.get(field.name) == field.dataType for field in whole.read_schema.fields if field.name in mentioned
            )
        )
        return replace(
            whole,
            source=source,
            schema=self.part.schema,
            columns=tuple(name for name in whole.columns if name in types or name in self.inside.fieldNames()),
            predicate=whole.predicate if same else None,
            pruned=pruned,
        )


def shares(parts: Sequence[Part], inside: StructType, roots: Sequence[str], rules: Rules) -> Iterator[Share]:
    """The parts, each cut by the directory below which partitions count where there are any."""
    for part in parts:
        if not inside.fields:
            yield Share(part, inside, None, rules)
            continue
        by_root: dict[str, list[str]] = {}
        for file in part.files:
            by_root.setdefault(root_of(file, roots) or location(file), []).append(file)
        for root, files in by_root.items():
            yield Share(Part(tuple(files), part.schema), inside, root, rules)
