"""Random tables with nulls and duplicates, and random queries with all kinds of joins in Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

TABLES = {
    "ta": "k int, g int, s string, a int",
    "tb": "k int, g int, b int",
    "tc": "k bigint, s string, c int",
    "td": "g int, s string, d int",
    "te": "k int, e int, s string",
    "tf": "k int, g int, s string, f int",
}
_UNIQUE = {"tf"}
"""Tables whose first column is unique, apart from nulls."""
_KEYS = ("k", "g", "s")
_STRINGS = ("u", "v", "w", "x", "y", "z")
_INNER = ("comma", "comma", "comma", "JOIN", "JOIN", "JOIN", "CROSS JOIN")
_OTHER = ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "USING", "NATURAL")


def rows_of(table: str, seed: int) -> list[tuple[int | str | None, ...]]:
    """Return the rows of a table: few distinct values, nulls, and duplicate rows."""
    random = Random(f"{table} {seed}")
    kinds = [column.split()[1] for column in TABLES[table].split(", ")]
    rows = [tuple(_value(kind, random) for kind in kinds) for _ in range(random.randint(5, 9))]
    if table in _UNIQUE:
        keyed = [(number, *row[1:]) for number, row in enumerate(rows)]
        return [*keyed, *[(None, *rows[0][1:])] * 2]
    return rows + random.sample(rows, 2)


def _value(kind: str, random: Random) -> int | str | None:
    if random.random() < 0.15:
        return None
    return random.choice(_STRINGS) if kind == "string" else random.randint(0, 6)


@dataclass
class Relation:
    """A relation in a FROM clause: its alias, its text, and its columns."""

    name: str
    text: str
    columns: tuple[str, ...]


@dataclass
class _Built:
    """An incomplete FROM clause. `visible` relations may be referenced, `pending` conditions belong into WHERE."""

    text: str
    visible: list[Relation]
    pending: list[str] = field(default_factory=list)
    merged: bool = False


class RandomQueries:
    """Queries over 2 to 7 relations. Most of them are valid."""

    def __init__(self, seed: int, *, only_inner: bool = False, favoured: Sequence[str] = ()) -> None:
        """Set the seed. `favoured` tables occur more often than others."""
        self._random = Random(seed)
        self._tables = [*TABLES, *favoured]
        self._only_inner = only_inner
        self._expressions: list[str] = []
        self._number = 0

    def query(self) -> str:
        self._expressions, self._number = [], 0
        text = self._select(self._random.randint(2, 7), depth=0)
        if self._random.random() < 0.1:
            word = self._random.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
            one, two = self._one_column(3), self._one_column(2)
            text = f"{one} {word} {two}"
        clause = f"WITH {', '.join(self._expressions)} " if self._expressions else ""
        return clause + text

    def _one_column(self, relations: int) -> str:
        built = self._from(relations, depth=1)
        return f"SELECT CAST({self._column(built.visible)} AS STRING) AS one FROM {built.text}{self._where(built)}"

    def _select(self, relations: int, depth: int) -> str:
        built = self._from(relations, depth)
        outputs, tail = self._outputs(built)
        return f"SELECT {outputs} FROM {built.text}{self._where(built)}{tail}"

    def _outputs(self, built: _Built) -> tuple[str, str]:
        """Return the SELECT list, and the clauses after WHERE."""
        one, two, three = (self._column(built.visible) for _ in range(3))
        numbered = f"{one} AS one, count(*) AS n, max({two}) AS most, count(DISTINCT {three}) AS differ"
        choices = [
            *[("*", "")] * 3,
            (f"{self._random.choice(built.visible).name}.*, {one} AS one", ""),
            (numbered, f" GROUP BY {one}"),
            (f"{one} AS one, count(*) OVER (PARTITION BY {two}) AS n", ""),
            (f"DISTINCT {one} AS one, {two} AS two", ""),
            (f"count(*) AS n, count({one}) AS known", ""),
            *[(f"{one}, {two}, {three}", "")] * 2,
        ]
        return self._random.choice(choices)

    def _from(self, relations: int, depth: int) -> _Built:
        first = self._relation(depth)
        built = _Built(first.text, [first])
        left = relations - 1
        while left > 0:
            if left > 1 and self._random.random() < 0.12:
                self._join_group(built, depth)
                left -= 2
            else:
                self._join(built, depth)
                left -= 1
        return built

    def _join(self, built: _Built, depth: int) -> None:
        new = self._relation(depth)
        kind = self._random.choice(_INNER if self._only_inner or self._random.random() < 0.7 else _OTHER)
        if kind == "USING":
            common = [key for key in _KEYS if key in new.columns and key in built.visible[-1].columns]
            if built.merged or len(built.visible) > 1 or not common:
                kind = "JOIN"
            else:
                side = self._random.choice(("", "LEFT ", "RIGHT ", "FULL "))
                built.text += f" {side}JOIN {new.text} USING ({common[0]})"
                built.merged = True
        if kind == "NATURAL":
            if built.merged or len(built.visible) > 1:
                kind = "LEFT JOIN"
            else:
                built.text += f" NATURAL JOIN {new.text}"
                built.merged = True
        condition = self._condition(built.visible, [new])
        if kind in ("comma", "CROSS JOIN"):
            built.text += f"{',' if kind == 'comma' else ' CROSS JOIN'} {new.text}"
            built.pending.append(condition)
        elif kind not in ("USING", "NATURAL"):
            built.text += f" {kind} {new.text} ON {condition}"
        if "SEMI" not in kind and "ANTI" not in kind:
            built.visible.append(new)

    def _join_group(self, built: _Built, depth: int) -> None:
        """Add joins in parentheses on the right side."""
        one, two = self._relation(depth), self._relation(depth)
        kind = self._random.choice(("JOIN",) if self._only_inner else ("JOIN", "JOIN", "LEFT JOIN"))
        inner = f"{one.text} JOIN {two.text} ON {self._condition([one], [two])}"
        built.text += f" {kind} ({inner}) ON {self._condition(built.visible, [one, two])}"
        built.visible += [one, two]

    def _relation(self, depth: int) -> Relation:
        self._number += 1
        name = f"r{self._number}"
        table = self._random.choice(self._tables)
        columns = tuple(column.split()[0] for column in TABLES[table].split(", "))
        choice = self._random.random()
        if depth > 0 or choice < 0.75:
            return Relation(name, f"{table} AS {name}", columns)
        if choice < 0.85:
            where = f" WHERE {self._plain(Relation(table, table, columns))}" if self._random.random() < 0.7 else ""
            inner = f"SELECT {', '.join(columns[:3])} FROM {table}{where}"
            return Relation(name, f"({inner}) AS {name}", columns[:3])
        if choice < 0.9:
            inner = f"SELECT {columns[0]}, max({columns[2]}) AS m FROM {table} GROUP BY {columns[0]}"
            return Relation(name, f"({inner}) AS {name}", (columns[0], "m"))
        expression = f"c{self._number}"
        self._expressions.append(f"{expression} AS (SELECT * FROM {table} WHERE {columns[0]} IS NOT NULL)")
        return Relation(name, f"{expression} AS {name}", columns)

    def _condition(self, left: Sequence[Relation], right: Sequence[Relation]) -> str:
        """Return a condition that connects both sides, usually an equality of columns of the same name."""
        one, two = self._random.choice(left), self._random.choice(right)
        common = [key for key in _KEYS if key in one.columns and key in two.columns]
        parts = []
        if common:
            key = self._random.choice(common)
            sign = "<=>" if self._random.random() < 0.1 else "="
            parts.append(f"{one.name}.{key} {sign} {two.name}.{key}")
        else:
            parts.append(f"{self._number_column(one)} = {self._number_column(two)}")
        if self._random.random() < 0.2:
            other = self._random.choice(left)
            sign = self._random.choice(("<", ">=", "<>", "="))
            parts.append(f"{self._number_column(other)} {sign} {self._number_column(two)}")
        if self._random.random() < 0.25:
            parts.append(self._plain(self._random.choice([one, two])))
        return " AND ".join(parts)

    def _plain(self, relation: Relation) -> str:
        column = f"{relation.name}.{self._random.choice(relation.columns)}"
        number = self._number_column(relation)
        choices = [
            f"{column} IS NOT NULL",
            f"{number} < {self._random.randint(2, 6)}",
            f"{number} IN ({self._random.randint(0, 6)}, {self._random.randint(0, 6)}, 3)",
            f"({number} > 2 OR {column} IS NULL)",
            f"NOT {number} = {self._random.randint(0, 6)}",
            f"{number} = {self._random.randint(0, 6)}",
            f"{column} IS NULL",
        ]
        if "s" in relation.columns:
            choices += [f"{relation.name}.s IN ('u', 'v', 'x')", f"{relation.name}.s > 'w'"]
        return self._random.choice(choices)

    def _number_column(self, relation: Relation) -> str:
        numbers = [column for column in relation.columns if column not in ("s", "m")]
        return f"{relation.name}.{self._random.choice(numbers or list(relation.columns))}"

    def _column(self, visible: Sequence[Relation]) -> str:
        relation = self._random.choice(visible)
        return f"{relation.name}.{self._random.choice(relation.columns)}"

    def _where(self, built: _Built) -> str:
        parts = list(built.pending)
        while self._random.random() < 0.5:
            parts.append(self._plain(self._random.choice(built.visible)))
        if self._random.random() < 0.12:
            outer = self._random.choice(built.visible)
            parts.append(
                self._random.choice(
                    (
                        f"EXISTS (SELECT 1 FROM tb AS i WHERE i.b = {self._number_column(outer)} AND i.g < 5)",
                        f"{self._number_column(outer)} IN (SELECT i.k FROM te AS i JOIN td AS j ON i.s = j.s)",
                        f"NOT EXISTS (SELECT 1 FROM ta AS i WHERE i.a = {self._number_column(outer)})",
                        f"{self._number_column(outer)} <= (SELECT max(i.d) FROM td AS i)",
                    )
                )
            )
        if len(built.visible) > 1 and self._random.random() < 0.15:
            one, two = self._random.sample(built.visible, 2)
            parts.append(f"({self._plain(one)} OR {self._plain(two)})")
        if len(built.visible) > 1 and self._random.random() < 0.2:
            pair = self._random.sample(built.visible, 2)
            alternatives = (" AND ".join(map(self._plain, pair)) for _ in range(self._random.randint(2, 3)))
            parts.append(f"({' OR '.join(alternatives)})")
        self._random.shuffle(parts)
        return f" WHERE {' AND '.join(parts)}" if parts else ""
