"""What of a predicate each database answers: the table of docs/remote.md, each row of which is a test.

Run this module to print the table.
"""

from __future__ import annotations

from dataclasses import dataclass

DATABASES = ("PostgreSQL", "MySQL, ignoring case", "MySQL, binary", "MySQL, binary, no pad", "SQLite")
"""MySQL by the collation of the string columns: `general_ci` and the like, `_bin`, and `nopad_bin` or `0900_bin`."""
COLLATIONS = {
    "utf8mb4_general_ci": 1,
    "utf8mb4_0900_ai_ci": 1,
    "utf8mb4_bin": 2,
    "utf8mb4_nopad_bin": 3,
    "utf8mb4_0900_bin": 3,
}
"""Collations of MySQL and MariaDB, not all of them in every version, and their places among `DATABASES`."""
MEANINGS = {"E": "exact", "I": "inexact", "U": "unsupported"}


@dataclass(frozen=True)
class Row:
    """A predicate, and a letter for each of `DATABASES`: E exact, I inexact, U unsupported."""

    classes: str
    predicate: str


@dataclass(frozen=True)
class Group:
    """Predicates of one kind, and why they are classed as they are."""

    title: str
    why: str
    rows: tuple[Row, ...]


GROUPS = (
    Group(
        "Comparisons, IN and NULL",
        "Numbers, booleans and nulls compare alike everywhere. A constant of another numeric type is turned "
        "into the bound that it is in the column's own type, so nothing is cast.",
        (
            Row("EEEEE", "i = 1"),
            Row("EEEEE", "i <> 1"),
            Row("EEEEE", "i < 5"),
            Row("EEEEE", "i <=> NULL"),
            Row("EEEEE", "i <=> j"),
            Row("EEEEE", "i IS DISTINCT FROM j"),
            Row("EEEEE", "i IS NOT NULL"),
            Row("EEEEE", "i IN (1, 2, NULL)"),
            Row("EEEEE", "i NOT IN (1, NULL)"),
            Row("EEEEE", "i BETWEEN 1 AND 7"),
            Row("EEEEE", "i NOT BETWEEN 1 AND 5"),
            Row("EEEEE", "i = 1.5"),
            Row("EEEEE", "i < 2.5"),
            Row("EEEEE", "i = '1'"),
            Row("EEEEE", "i < 99999999999999999999"),
            Row("EEEEE", "i = l"),
            Row("EEEEE", "l = 9223372036854775807"),
            Row("EEEEE", "l = 9007199254740992D"),
            Row("EEEEE", "l > -1e19"),
            Row("EEEEE", "b"),
            Row("EEEEE", "NOT b"),
            Row("EEEEE", "b IS NOT FALSE"),
            Row("EEEEE", "b > false"),
            Row("EEEEE", "(i = 1) IS NULL"),
            Row("EEEEE", "(i > 1) IS NOT TRUE"),
            Row("EEEEE", "(i > 1) <=> (j > 1)"),
            Row("EEEEE", "b = (i > 1)"),
        ),
    ),
    Group(
        "AND, OR and NOT",
        "A part of an AND that cannot be sent is left out (inexact), an OR needs all its parts; under NOT it "
        "is the other way round.",
        (
            Row("EEEEE", "i = 1 OR j = 1 AND b"),
            Row("EEEEE", "NOT (i = 1 AND j = 2)"),
            Row("IIIII", "i = 1 AND upper(s) = 'ABC'"),
            Row("UUUUU", "upper(s) = 'ABC' OR i = 1"),
            Row("IIIII", "(upper(s) = 'ABC' AND i = 1) OR j = 1"),
            Row("IIIII", "NOT (upper(s) = 'ABC' OR i = 1)"),
            Row("UUUUU", "NOT (upper(s) = 'ABC' AND i = 1)"),
        ),
    ),
    Group(
        "Arithmetic",
        "Spark raises where its type overflows (without ANSI mode it wraps). The remote computes with operands "
        "that 64 bits have room for, or in a wider type, and keeps the other rows, so Spark meets them: inexact.",
        (
            Row("IIIII", "i + j > 5"),
            Row("IIIII", "i - (j - 1) > 2"),
            Row("IIIII", "i * j > 10"),
            Row("IIIII", "-i > 5"),
            Row("IIIII", "l + 1 > 0"),
            Row("IIIII", "l * 2 > 10"),
            Row("IIIII", "NOT l * -3 <= 14"),
            Row("IIIII", "7 - l IN (2, 12)"),
            Row("IIIII", "(l + 7) IS NULL"),
            Row("IIIII", "l * 4611686018427387904 = 0"),
            Row("IIIII", "l + i > 5"),
            Row("IIIII", "l - l = 0"),
            Row("IIIII", "l * i < 3"),
            Row("IIIII", "(l * 3 + 1) * 2 > 7"),
            Row("IIIII", "cast(l as int) + 2147483647 < 0"),
            Row("IIIII", "i * 3 - j * 2 > 7"),
            Row("IIIIU", "abs(i) = 7"),
            Row("IIIII", "i + 1 IN (2, 3)"),
            Row("IIIII", "i + j <=> 3"),
            Row("IIIII", "(i + j > 5) IS NULL"),
            Row("EEEEE", "i % 3 + j % 5 = 3"),
            Row("EEEEI", "cast(i as bigint) * 2 > 5"),
            Row("IIIII", "i < -cast(-128 as tinyint)"),
            Row("IIIII", "i < 2147483647 + 1"),
            Row("IIIII", "i < abs(cast(-2147483648 as int))"),
            Row("IUUUI", "i < abs(~2147483647)"),
        ),
    ),
    Group(
        "Division",
        "By a number that is written out and is not 0, 1 or -1, quotients are cut towards zero and remainders "
        "have the sign of the dividend everywhere. Anything else may divide by zero, and `/` gives decimals "
        "in some databases and doubles in others.",
        (
            Row("EEEEE", "i div 2 = -3"),
            Row("EEEEE", "i % 2 = -1"),
            Row("EEEEE", "i % -2 = 1"),
            Row("EEEEE", "l % 7 = 2"),
            Row("UUUUU", "i % j = 1"),
            Row("UUUUU", "i / 2 > 2"),
            Row("UUUUU", "100 / j > 10"),
            Row("UUUUU", "pmod(i, 3) = 2"),
        ),
    ),
    Group(
        "Bits",
        "MySQL's operators give unsigned numbers, of which a cast makes signed ones again, but it inverts and "
        "shifts other bits than Spark. SQLite has no exclusive or.",
        (
            Row("EEEEE", "i & 1 = 1"),
            Row("EEEEE", "i | 1 = 1"),
            Row("IIIII", "(i & j) + 1 = 2"),
            Row("EEEEU", "i ^ j = 3"),
            Row("EUUUE", "~i = -2"),
            Row("IIIII", "i << 1 = 2"),
            Row("EUUUE", "shiftright(i, 1) = -4"),
        ),
    ),
    Group(
        "Decimals",
        "SQLite keeps decimals as doubles: values that are no multiple of the scale are kept for Spark, and "
        "nothing is computed.",
        (
            Row("EEEEI", "n = 1.5"),
            Row("EEEEI", "n > 2.449"),
            Row("EEEEI", "n < 0.105"),
            Row("EEEEI", "n IN (1.5, 2.45, 0)"),
            Row("EEEEI", "n = 0.1D"),
            Row("EEEEU", "n + 1 > 3"),
            Row("EEEEU", "n * 3 = 0.3"),
            Row("EEEEU", "n * n > 6"),
            Row("EEEEU", "n - 1.255 > 0"),
            Row("UUUUU", "n / 3 > 0.5"),
            Row("UUUUU", "n + f > 2"),
            Row("UUUUU", "cast(n as int) = 2"),
            Row("UUUUU", "round(n, 1) = -2.5"),
            Row("UUUUU", "floor(n) = -3"),
        ),
    ),
    Group(
        "Doubles",
        "NaN equals itself and is larger than all else in Spark and PostgreSQL; MySQL and SQLite hold none, "
        "so there the answer is known. Infinity is no literal of SQLite. Nothing is computed with doubles: "
        "PostgreSQL raises where they overflow, and the last digit may differ.",
        (
            Row("EEEEE", "f = 0.1"),
            Row("EEEEE", "f = 0.30000000000000004D"),
            Row("EEEEE", "f = 5e-324"),
            Row("EEEEE", "f >= 1e308D"),
            Row("EEEEE", "f = -0.0D"),
            Row("EEEEE", "f <> f"),
            Row("EEEEE", "isnan(f)"),
            Row("EEEEE", "NOT isnan(f)"),
            Row("EEEEE", "f = double('NaN')"),
            Row("EEEEE", "f < double('NaN')"),
            Row("EEEEE", "f > double('-Infinity')"),
            Row("EEEEU", "f = double('Infinity')"),
            Row("EEEEE", "f IN (double('NaN'), 0.1D)"),
            Row("UUUUU", "f + 1 > 2"),
            Row("UUUUU", "i = f"),
            Row("UUUUU", "cast(f as int) = 2"),
            Row("UUUUU", "round(f) = 3"),
            Row("UUUUU", "sqrt(f) > 1"),
        ),
    ),
    Group(
        "Choices",
        "CASE and its relatives over values of one type. GREATEST and LEAST skip nulls in Spark and PostgreSQL alone.",
        (
            Row("EEEEE", "coalesce(i, j, 0) > 1"),
            Row("EEEEE", "coalesce(s, 'none') = 'none'"),
            Row("EEEEE", "nullif(i, 1) IS NULL"),
            Row("EEEEE", "if(b, i, j) = 1"),
            Row("EEEEE", "CASE WHEN i > 1 THEN 'a' ELSE 'b' END = 'a'"),
            Row("EEEEE", "CASE i WHEN 1 THEN 'one' WHEN 2 THEN 'two' END = 'one'"),
            Row("EEEEE", "CASE WHEN i > 1 THEN true END"),
            Row("IIIII", "CASE WHEN i = 1 THEN j WHEN j = 1 THEN i + j ELSE 0 END = 2"),
            Row("UUUUU", "CASE WHEN b THEN i ELSE s END = 1"),
            Row("UUUUU", "greatest(i, j) > 5"),
        ),
    ),
    Group(
        "Casts",
        "Integers to text and among each other (those that do not fit are kept for Spark), timestamps to "
        "dates. All other casts differ in rounding, in spelling or in what they refuse.",
        (
            Row("EEEEE", "cast(i as string) = '1'"),
            Row("IIIII", "cast(l as int) = 1"),
            Row("IIIII", "cast(i as tinyint) = 7"),
            Row("EEEEI", "cast(ts as date) = DATE'2024-02-29'"),
            Row("UUUUU", "cast(s as int) = 10"),
            Row("UUUUU", "cast(n as string) = '1.50'"),
            Row("UUUUU", "cast(f as string) = '1.5'"),
            Row("UUUUU", "cast(b as string) = 'true'"),
            Row("UUUUU", "cast(d as string) = '2024-02-29'"),
            Row("UUUUU", "cast(i as boolean)"),
            Row("UUUUU", "s = 10"),
        ),
    ),
    Group(
        "Strings: equality",
        "Spark compares bytes. Most collations of MySQL ignore case, accents or trailing spaces: a comparison "
        "of bytes is added, and the collation's own beside it finds rows by index. That is right where rows "
        "that are equal are wanted; where they are not (`<>`, NOT IN), the rows that the collation would lose "
        "are too many to be sure of, so Spark filters.",
        (
            Row("EEEEE", "s = 'abc'"),
            Row("EEEEE", "s = 'ABC'"),
            Row("EEEEE", "s = 'abc '"),
            Row("EEEEE", "s = 'é'"),
            Row("EEEEE", "s = 'a\\\\b'"),
            Row("EEEEE", "s = 'it\\'s'"),
            Row("EEEEE", "s IN ('abc', 'ABC', NULL)"),
            Row("EEEEE", "s <=> c"),
            Row("EEEEE", "s = c"),
            Row("EEEEE", "s = trim(s)"),
            Row("EUUEE", "s <> 'abc'"),
            Row("EUUEE", "s NOT IN ('abc')"),
            Row("EIIEE", "NOT (s = 'abc' OR i = 1)"),
            Row("EUUEE", "NOT (s = 'abc' AND i = 1)"),
            Row("EUUEE", "(s = 'abc') IS NULL"),
            Row("EUUEE", "if(s = 'abc', 1, 0) = 1"),
        ),
    ),
    Group(
        "Strings: order",
        'By bytes in Spark. PostgreSQL does it under COLLATE "C", SQLite by default, MySQL under a binary '
        "collation that does not pad.",
        (
            Row("EUUEE", "s < 'a'"),
            Row("EUUEE", "s > 'Z'"),
            Row("EUUEE", "s >= 'é'"),
            Row("EUUEE", "s >= 'Z' AND s < 'a'"),
            Row("EUUEE", "s BETWEEN 'a' AND 'b'"),
            Row("EUUEE", "s < c"),
        ),
    ),
    Group(
        "Strings: char(n)",
        "Padded to n in PostgreSQL, without trailing spaces in MySQL: what is sent compares the value that is "
        "read. Lengths of padded values are left to Spark.",
        (
            Row("EEEEE", "c = 'abc'"),
            Row("EEEEE", "c = 'abc  '"),
            Row("EEEEE", "c IN ('abc', 'abc  ')"),
            Row("EUUEE", "c < 'abd'"),
            Row("EEEEE", "c LIKE 'ab%'"),
            Row("EEEEE", "trim(c) = 'abc'"),
            Row("UEEEI", "length(c) = 5"),
        ),
    ),
    Group(
        "Strings: LIKE",
        "Sent with an escape character of its own. SQLite's LIKE ignores case and escapes nothing: prefixes "
        "become ranges, suffixes and contained strings are looked for by bytes, other patterns go to GLOB, "
        "which ends at a NUL (rows with one are kept for Spark).",
        (
            Row("EEEEE", "s LIKE 'a%'"),
            Row("EEEEE", "s LIKE '%b'"),
            Row("EEEEI", "s LIKE 'a%b'"),
            Row("EEEEI", "s LIKE '_x'"),
            Row("EEEEI", "s LIKE '__'"),
            Row("EEEEE", "s LIKE 'a|_b' ESCAPE '|'"),
            Row("EEEEU", "s LIKE 'a\\\\_b'"),
            Row("EEEEU", "s LIKE 'a\\\\%b'"),
            Row("EEEEE", "s LIKE '%😀'"),
            Row("EEEEI", "s LIKE 'a*_'"),
            Row("EUEEU", "s NOT LIKE 'a%'"),
            Row("EUEEU", "s NOT LIKE '__'"),
            Row("EEEEE", "startswith(s, 'a%')"),
            Row("EEEEE", "endswith(s, 'b ')"),
            Row("EEEEE", "contains(s, '%')"),
            Row("EEEEE", "contains(s, '')"),
            Row("UUUUU", "s ILIKE 'ABC'"),
            Row("UUUUU", "s RLIKE '^a'"),
            Row("UUUUU", "s RLIKE 'a.b'"),
        ),
    ),
    Group(
        "Strings: functions",
        "Characters are code points everywhere, and only spaces are trimmed. SQLite's functions end at a NUL "
        "(rows with one are kept). Positions before the first and upper and lower case differ.",
        (
            Row("EEEEI", "length(s) = 3"),
            Row("EEEEE", "octet_length(s) = 2"),
            Row("EEEEI", "length(trim(s)) = 3"),
            Row("EEEEE", "trim(s) = 'pad'"),
            Row("EEEEE", "ltrim(s) = 'pad '"),
            Row("EEEEE", "rtrim(s) = 'ab'"),
            Row("EEEEI", "substring(s, 1, 1) = 'a'"),
            Row("EEEEI", "substring(s, 2) = 'bc'"),
            Row("UUUUU", "substring(s, 0, 2) = 'ab'"),
            Row("UUUUU", "substring(s, -1, 1) = 'c'"),
            Row("EEEEI", "left(s, 2) = 'ab'"),
            Row("EEEEI", "right(s, 1) = 'c'"),
            Row("EEEEE", "concat(s, 'x') = 'abcx'"),
            Row("EEEEE", "s || c = 'abc'"),
            Row("EEEEE", "replace(s, 'b', '') = 'ac'"),
            Row("EEEEE", "instr(s, 'é') = 1"),
            Row("EEEEE", "locate('b', s) = 2"),
            Row("UUUUU", "upper(s) = 'ABC'"),
            Row("UUUUU", "lower(s) = 'é'"),
            Row("UUUUU", "reverse(s) = 'cba'"),
            Row("UUUUU", "lpad(s, 4, '*') = '*abc'"),
            Row("UUUUU", "md5(s) = '900150983cd24fb0d6963f7d28e17f72'"),
        ),
    ),
    Group(
        "Dates",
        "Gregorian everywhere, before 1582 too. MySQL's zero dates are NULL or raise, as the source's options "
        "say. SQLite has no dates: texts that are no `YYYY-MM-DD` are kept for Spark.",
        (
            Row("EEEEI", "d = DATE'2024-02-29'"),
            Row("EEEEI", "d > '2024-01-01'"),
            Row("EEEEI", "d <= DATE'1582-10-15'"),
            Row("EEEEI", "d IN (DATE'2024-02-29', DATE'1970-01-01')"),
            Row("EEEEI", "d <=> DATE'2024-02-29'"),
            Row("EEEEI", "d NOT IN (DATE'2024-02-29', NULL)"),
            Row("EEEEI", "coalesce(d, DATE'2000-01-01') = DATE'2000-01-01'"),
            Row("EEEEI", "year(d) = 2024"),
            Row("EEEEI", "month(d) = 2"),
            Row("EEEEI", "dayofmonth(d) = 1"),
            Row("EEEEI", "quarter(d) = 1"),
            Row("EEEEI", "year(d) * 100 + month(d) = 202402"),
            Row("UUUUU", "dayofweek(d) = 5"),
            Row("UUUUU", "weekofyear(d) = 1"),
            Row("UUUUU", "extract(dow from d) = 5"),
            Row("UUUUU", "date_add(d, 1) > DATE'2024-03-01'"),
            Row("UUUUU", "last_day(d) = DATE'2024-02-29'"),
            Row("UUUUU", "trunc(d, 'YEAR') = DATE'2024-01-01'"),
            Row("UUUUU", "date_format(d, 'yyyy-MM') = '2024-02'"),
            Row("UUUUU", "d > current_date()"),
        ),
    ),
    Group(
        "Timestamps",
        "Without a zone they are the same text everywhere; equality with fractions of a second is left to "
        "Spark where columns may have lost them. A comparison with a date or with a timestamp of another kind "
        "takes the session's zone.",
        (
            Row("EEEEI", "ts > TIMESTAMP_NTZ'2024-05-15 23:30:59.4'"),
            Row("EEEEI", "ts = TIMESTAMP_NTZ'2024-02-29 12:00:00'"),
            Row("EUUUU", "ts = TIMESTAMP_NTZ'2024-12-30 00:00:00.123456'"),
            Row("EEEEI", "ts <= TIMESTAMP_NTZ'1582-10-10 01:02:03'"),
            Row("EEEEI", "ts IS NULL"),
            Row("EEEEI", "year(ts) = 2024"),
            Row("EEEEI", "hour(ts) = 23"),
            Row("EEEEI", "second(ts) = 59"),
            Row("EEEEI", "extract(hour from ts) = 23"),
            Row("UUUUU", "extract(second from ts) = 59.5"),
            Row("UUUUU", "ts = TIMESTAMP'2024-02-29 12:00:00'"),
            Row("UUUUU", "ts >= '2024-05-15'"),
            Row("UUUUU", "ts = d"),
            Row("UUUUU", "unix_timestamp(ts) = 1709208000"),
        ),
    ),
    Group(
        "Never sent",
        "What is not the same at any two times, or cannot be read with certainty.",
        (
            Row("UUUUU", "rand() < 2"),
            Row("UUUUU", "i & j | 8 = 9"),
            Row("UUUUU", "i = 1 = b"),
        ),
    ),
)

TRANSLATED_WRONGLY = (
    (".xxx.", "~i = -2"),
    (".xxx.", "shiftright(i, 1) = -4"),
    ("....x", "f = double('Infinity')"),
    ("....x", "n * 3 = 0.3"),
    ("xxxx.", "cast(n as int) = 2"),
    ("xxxx.", "round(f) = 3"),
    (".xxxx", "sqrt(f) > 1"),
    (".xx..", "s <> 'abc'"),
    (".x...", "s < 'a'"),
    (".xx..", "s > 'a'"),
    (".x...", "s >= 'Z' AND s < 'a'"),
    (".xx..", "s BETWEEN 'a' AND 'b'"),
    (".x...", "c < 'abd'"),
    ("....x", "s LIKE 'a\\\\_b'"),
    ("....x", "s LIKE 'a\\\\%b'"),
    ("....x", "s LIKE 'a\\\\\\\\b'"),
    (".x..x", "s NOT LIKE 'a%'"),
    ("x....", "s RLIKE '\\\\bab'"),
    ("....x", "upper(s) = 'É'"),
    ("xxxxx", "upper(s) = 'SS'"),
    ("x....", "length(c) = 5"),
    ("xxxxx", "substring(s, 0, 2) = 'ab'"),
    ("x....", "substring(s, -1, 1) = 'c'"),
    ("....x", "cast(n as string) = '1.50'"),
    (".xxxx", "cast(b as string) = 'true'"),
    ("....x", "ts = TIMESTAMP'2024-02-29 12:00:00'"),
    (".xxxx", "ts = TIMESTAMP_NTZ'2024-12-30 00:00:00.123456'"),
    ("....x", "ts = d"),
    ("x....", "extract(dow from d) = 5"),
    (".xxx.", "extract(second from ts) = 59.5"),
    ("....x", "date_format(d, 'yyyy-MM') = '2024-02'"),
    ("....x", "rand() < 2"),
)
"""What a translator that knows only syntax gets wrong, by database (x): rows that Spark keeps are lost. Never sent."""


def as_markdown() -> str:
    """The table of the documentation."""
    lines: list[str] = []
    for group in GROUPS:
        lines += [f"### {group.title}", "", group.why, ""]
        lines += [f"| predicate | {' | '.join(DATABASES)} |", "|---|" + "---|" * len(DATABASES)]
        for row in group.rows:
            shown = row.predicate.replace("|", "\\|")
            lines.append(f"| `{shown}` | {' | '.join(MEANINGS[letter] for letter in row.classes)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(as_markdown())
