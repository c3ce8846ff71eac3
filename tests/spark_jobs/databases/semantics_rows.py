"""Exactness of predicates by database. Tests check each row, and `docs/remote-reference.md` contains the tables.

Run this module to print the tables.
"""

from __future__ import annotations

from dataclasses import dataclass

DATABASES = ("PostgreSQL", "MySQL, ignoring case", "MySQL, binary", "MySQL, binary, no pad", "SQLite")
"""The columns of the tables. MySQL has one for each kind of collation: `general_ci`, `_bin`, `nopad_bin`."""
COLLATIONS = {
    "mariadb": {"utf8mb4_general_ci": 1, "utf8mb4_bin": 2, "utf8mb4_0900_bin": 2, "utf8mb4_nopad_bin": 3},
    "mysql": {"utf8mb4_general_ci": 1, "utf8mb4_0900_ai_ci": 1, "utf8mb4_bin": 2, "utf8mb4_0900_bin": 3},
}
"""Collations of the servers, with their index in `DATABASES`. Some versions lack some of them."""
MEANINGS = {"E": "exact", "I": "inexact", "U": "unsupported"}


@dataclass(frozen=True)
class Row:
    """A predicate, and a letter for each database: E exact, I inexact, U unsupported."""

    classes: str
    predicate: str


@dataclass(frozen=True)
class Group:
    """Predicates of one kind, and the reason for their exactness."""

    title: str
    why: str
    rows: tuple[Row, ...]


GROUPS = (
    Group(
        "Comparisons, IN and NULL",
        "Numbers, booleans and NULL compare the same way in all databases. A constant of another numeric type is "
        "converted to the equivalent bound in the column's type, so that the column needs no cast.",
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
        "An AND may drop an operand that cannot be sent (inexact). An OR needs all its operands. Under NOT, the "
        "roles of AND and OR are swapped.",
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
        "Spark raises an error on overflow, or wraps without ANSI mode. The database computes in a type that "
        "cannot overflow, or returns the rows that could overflow, so that Spark evaluates them again: inexact.",
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
        ),
    ),
    Group(
        "Division",
        "If the divisor is a literal other than 0, 1 and -1, all databases truncate quotients toward zero and "
        "give remainders the sign of the dividend. Other divisors may be zero, and the result type of `/` differs"
        " between databases.",
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
        "MySQL's bit operators return unsigned numbers. A cast makes them signed again. SQLite has no exclusive or.",
        (
            Row("EEEEE", "i & 1 = 1"),
            Row("EEEEE", "i | 1 = 1"),
            Row("IIIII", "(i & j) + 1 = 2"),
            Row("EEEEU", "i ^ j = 3"),
            Row("UUUUU", "~i = -2"),
            Row("UUUUU", "i << 1 = 2"),
            Row("UUUUU", "shiftright(i, 1) = -4"),
        ),
    ),
    Group(
        "Decimals",
        "SQLite stores decimals as doubles. The database returns the values that are not a multiple of the scale "
        "to Spark, and no arithmetic is sent.",
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
        "In Spark and PostgreSQL, NaN equals itself and is larger than any other value. MySQL and SQLite cannot "
        "store NaN, so the result is known there. SQLite has no literal for infinity. No arithmetic is sent: "
        "PostgreSQL raises an error on overflow, and the last digit may differ.",
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
        "CASE and similar functions are sent if all values have the same type. GREATEST and LEAST ignore NULL "
        "only in Spark and PostgreSQL.",
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
        "Casts from integers to strings, between integer types and from timestamps to dates are sent. Integers "
        "that do not fit the target type are returned to Spark. All other casts differ in rounding, formatting or"
        " accepted input.",
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
        "Spark compares bytes. Most collations of MySQL ignore case, accents or trailing spaces. The SQL "
        "therefore has a comparison of bytes in addition to the comparison that can use an index. This is sound "
        "only if equal rows are kept. For `<>` and NOT IN, the collation could drop rows that Spark keeps, so "
        "only Spark filters.",
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
        'Spark orders strings by bytes. PostgreSQL does so with COLLATE "C", SQLite by default, and MySQL with a '
        "binary collation without padding.",
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
        "PostgreSQL pads char(n) to n characters. MySQL removes trailing spaces. The SQL compares the value that "
        "a query returns. Spark evaluates the length of padded values.",
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
        "The SQL has its own escape character. In SQLite, LIKE ignores case and has no default escape character: "
        "prefixes become ranges, suffixes and substrings become comparisons of bytes, and other patterns use "
        "GLOB. GLOB stops at a NUL character, so rows that contain one are returned to Spark.",
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
        "All databases count code points and trim only spaces. SQLite's functions stop at a NUL character, so "
        "rows that contain one are returned to Spark. Databases differ in positions before the first character "
        "and in conversions to upper and lower case.",
        (
            Row("EEEEI", "length(s) = 3"),
            Row("UUUUU", "octet_length(s) = 2"),
            Row("EEEEI", "length(trim(s)) = 3"),
            Row("EEEEE", "trim(s) = 'pad'"),
            Row("EEEEE", "ltrim(s) = 'pad '"),
            Row("EEEEE", "rtrim(s) = 'ab'"),
            Row("EEEEE", "substring(s, 1, 1) = 'a'"),
            Row("EEEEI", "substring(s, 2) = 'bc'"),
            Row("UUUUU", "substring(s, 0, 2) = 'ab'"),
            Row("UUUUU", "substring(s, -1, 1) = 'c'"),
            Row("EEEEE", "left(s, 2) = 'ab'"),
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
        "All databases use the proleptic Gregorian calendar. MySQL's zero dates are NULL or an error, depending "
        "on the option `zero_dates_as_null`. SQLite has no date type: strings that do not look like `YYYY-MM-DD` "
        "are returned to Spark.",
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
        "Timestamps without time zone are the same in all databases. Spark evaluates an equality with fractions "
        "of a second if the column's type may have rounded them. A comparison with a date or with the other "
        "timestamp type depends on the session's time zone.",
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
        "Nondeterministic functions, and expressions that the parser cannot read unambiguously.",
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
"""Predicates that are never sent, because a purely syntactic translation would lose rows in these databases (x)."""


def as_markdown() -> str:
    """Return the tables of the documentation.

    Predicates of a group with the same classes share a row. MySQL has one column if collations make no difference.
    """
    lines: list[str] = []
    for group in GROUPS:
        by_classes: dict[str, list[str]] = {}
        for row in group.rows:
            by_classes.setdefault(row.classes, []).append("`" + row.predicate.replace("|", "\\|") + "`")
        columns = dict(enumerate(DATABASES))
        if all(len(set(classes[1:4])) == 1 for classes in by_classes):
            columns = {0: DATABASES[0], 1: "MySQL, MariaDB", 4: DATABASES[4]}
        lines += [f"### {group.title}", "", group.why, ""]
        lines += [f"| Predicates | {' | '.join(columns.values())} |", "|---|" + "---|" * len(columns)]
        for classes, predicates in by_classes.items():
            lines.append(f"| {', '.join(predicates)} | {' | '.join(MEANINGS[classes[place]] for place in columns)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(as_markdown())
