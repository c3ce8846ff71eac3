"""Spellings and predicates that were once missed: if Spark keeps the line, the patterns must match it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from constant_cache import ConstantCache
from oracle import TextCase, byte_patterns, candidates, evaluate, matches
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.contract import SourceFormat

JSON_SCHEMA = (
    "b tinyint, i int, l bigint, f float, x double, dec decimal(10,2), whole decimal(5,0), s string, u string, d date, "
    "ts timestamp, ntz timestamp_ntz, bo boolean, st struct<i: string, a: int, b: struct<c: string>>, "
    "`k.y` string, `x y` int, `ü` int, `it's` int, `a/b` int, arr array<string>, m map<string, string>"
)
FIVE_MINUTES = "ts BETWEEN TIMESTAMP'2015-03-08T07:00:00Z' AND TIMESTAMP'2015-03-08T07:05:00Z'"
"""An interval that begins at a transition of daylight saving time in New York."""
JSON_PINS: tuple[tuple[str, bytes], ...] = (
    (FIVE_MINUTES, b'{"ts":"2015-03-08T07:04:59.999Z"}'),
    (FIVE_MINUTES, b'{"ts":"2015-03-08 07:04:00+00:00"}'),
    (FIVE_MINUTES, b'{"ts":"2015-03-08T07:04:00.-00:00"}'),
    (FIVE_MINUTES, b'{"ts":"2015-03-08T03:04:00-04:00"}'),
    (FIVE_MINUTES, b'{"ts":"2015-03-08T12:34:00+05:30"}'),
    (FIVE_MINUTES, b'{"ts":"2015-03-08T03:04:00 America/New_York"}'),
    (FIVE_MINUTES, b'{"ts":"2015-03-08T02:04:00 America/New_York"}'),
    (FIVE_MINUTES, b'{"ts":"2015-03-08T07:04:00 UTC"}'),
    (FIVE_MINUTES, b'{"ts":"2015-3-8 7:4:0Z"}'),
    (FIVE_MINUTES, b'{"ts":"2015-03-07T13:04:00-18:00"}'),
    (FIVE_MINUTES, b'{"ts":"2015-03-08T07:0\\u0034:00Z"}'),
    (FIVE_MINUTES, b'{"ts":1425798240}'),
    ("x > 14285.0", b'{"x":14286}'),
    ("x > 14285.0", b'{"x":1e9}'),
    ("x > 14285.0", b'{"x":NaN}'),
    ("x > 14285.0", b'{"x":"Infinity"}'),
    ("x > 14285.0", b'{"x":123456789012345678901234567890}'),
    ("x < -5.5", b'{"x":-123456789012345678901234567890.5}'),
    ("x < 5.5", b'{"x":-0.5}'),
    ("x < 5.5", b'{"x":5.4}'),
    ("dec > 142.85", b'{"dec":142.855}'),
    ("dec > 142.85", b'{"dec":99999999}'),
    ("b = -56", b'{"b":200}'),
    ("b < 0", b'{"b":255}'),
    ("b BETWEEN -60 AND -50", b'{"b":200}'),
    ("b IN (1, -56)", b'{"b":200}'),
    ("i = 0", b'{"i":-0}'),
    ("i = 2", b'{"i":1,"i":2}'),
    ("i = 77", b'[{"i":1},{"i":77}]'),
    ("i = 7", b'\xef\xbb\xbf{"i":7}'),
    ("i = 7", b'{"\\u0069":7}'),
    ("i = 7", b'{"i"\t: \t7}'),
    ("i = 7", b"{'i':7}"),
    ("i = 7", b'{"i":7} x'),
    ("i < 1.5", b'{"i":1}'),
    ("i = 7", b'{"\xffi":7}'),
    ("1.5 > i", b'{"i":1}'),
    ("NOT i >= 2", b'{"i":1}'),
    ("NOT i = l IS NOT NULL", b'{"l":5}'),
    ("i <=> 5 OR s IS NULL", b"{}"),
    ("NOT (i IN (1, 2))", b'{"i":3}'),
    ("l = 9007199254740992D", b'{"l":9007199254740993}'),
    ("l = 9.007199254740992E15", b'{"l":9007199254740993}'),
    ("l > 9007199254740991D", b'{"l":9007199254740992}'),
    ("l IN (9007199254740993, 1.5D)", b'{"l":9007199254740992}'),
    ("i < 100000000000000000000", b"{}"),
    ("NOT i >= 10000000000000000000000000BD", b"{}"),
    ("i NOT BETWEEN 10000000000000000000000000BD AND -56", b"{}"),
    ("l = -9223372036854775808", b'{"l":-9223372036854775808}'),
    ("f = 16777216", b'{"f":16777217}'),
    ("f = 0", b'{"f":-0.0}'),
    ("x = 100", b'{"x":1e2}'),
    ("x BETWEEN 0.5 AND 2", b'{"x":15E-1}'),
    ("x = 5", b'{"x":5}'),
    ("dec = 1.00", b'{"dec":0.995}'),
    ("dec = -1", b'{"dec":-0.995}'),
    ("dec = 5", b'{"dec":"5.00"}'),
    ("whole = 5", b'{"whole":4.5}'),
    ("whole IN (4.6, 5)", b'{"whole":4.5}'),
    ("s = '?'", b'{"s":"\\ud800"}'),
    ("s LIKE 'a?%'", b'{"s":"a\\uDFFF"}'),
    ("s = 'A'", b'{"s":"\xc1\x81"}'),
    ("s LIKE '%abc%'", b'{"s":"x\xc1\xa1bc"}'),
    ("s = 'abc'", b'{"s":"\\u0061\\u0062\\u0063"}'),
    ("s = 'abc'", b'{"\xc1\xb3":"abc"}'),
    ("s = 'K'", b'{"s":"\\u004B"}'),
    ("s = '\U0001f600'", b'{"s":"\\uD83D\\uDe00"}'),
    ("s = 'a/b'", b'{"s":"a\\/b"}'),
    ("s LIKE '%xyza/b%'", b'{"s":"xyza\\/b"}'),
    ("s = 'what??'", b'{"s":"what\xf4\x90\x80\x80"}'),
    ("s LIKE '?%'", b'{"s":"\xf5\x90\x80\x80"}'),
    ("s = 'true'", b'{"s":true}'),
    ("s = '5'", b'{"s": 5 }'),
    ("s = '1.0'", b'{"s":1.0}'),
    ("s = '[1,2]'", b'{"s":[1,2]}'),
    ("s = '{ \"k\" : 12 }'", b'{"s":{ "k" : 12 }}'),
    ("s LIKE '%k%12%'", b'{"s":{ "k" : 12 }}'),
    ("s = 'it\"s'", b"{'s':'it\"s'}"),
    ("s = ''", b'{"s":""}'),
    ("s LIKE 'a_c'", b'{"s":"abc"}'),
    ("s LIKE '_bc'", b'{"s":"abc"}'),
    ("s LIKE '(x|y)%'", b'{"s":"(x|y)z"}'),
    ("s = 'a.b*c'", b'{"s":"a.b*c"}'),
    ("s LIKE '50\\\\%'", b'{"s":"50%"}'),
    ("s LIKE '50!%' ESCAPE '!'", b'{"s":"50%"}'),
    ("s = 'back\\\\slash'", b'{"s":"back\\\\slash"}'),
    ("s = 'it''s'", b'{"s":"it\'s"}'),
    ('s = "abc"', b'{"s":"abc"}'),
    ("s < 'x'", b'{"s":"abc"}'),
    ("s NOT LIKE 'a%'", b'{"s":"b"}'),
    ("NOT (s NOT LIKE 'ab%')", b'{"s":"abc"}'),
    ("s = u", b'{"s":"abc","u":"abc"}'),
    ("s <=> NULL", b'{"i":1}'),
    ("S = 'abc'", b'{"s":"abc"}'),
    ("d < DATE'1995-01-01'", b'{"d":"0000-06-30"}'),
    ("d > DATE'1995-01-01'", b'{"d":"+12345-06-07"}'),
    ("d < '1995-01-01'", b'{"d":"-0005-01-01"}'),
    ("d = '1995-01-05'", b'{"d":"1995-1-5"}'),
    ("d = '1995-01-01'", b'{"d":"1995"}'),
    ("d = '1995-01-05'", b'{"d":" +1995-01-05T12:00:00"}'),
    ("d = '1995-01-05'", b'{"d":"1995-01-0\\u0035"}'),
    ("d = '1582-10-10'", b'{"d":"1582-10-10"}'),
    ("d BETWEEN '1995-01-01' AND '1995-12-31'", b'{"d":"1995-1"}'),
    ("ts = '1995-01-05 00:00:00+18:00'", b'{"ts":"1995-01-03T12:00:00-18:00"}'),
    ("ts < '1995-01-05'", b'{"ts":5}'),
    ("ts > '1995-01-05'", b'{"ts":"12345-01-01"}'),
    ("ntz = '1995-01-05'", b'{"ntz":"1995-01-05T00:00:00"}'),
    ("bo", b'{"bo":true}'),
    ("NOT bo", b'{"bo":false}'),
    ("bo = false", b'{"bo" : false}'),
    ("st.b.c = 'abc'", b'{"st":{"b":{"c":"abc"}}}'),
    ("st.i = 'abc' AND i IS NULL", b'{"st":{"i":"abc"}}'),
    ("st.a IS NOT NULL", b'{"st":{"a":1}}'),
    ("`k.y` = 'abc'", b'{"k.y":"abc"}'),
    ("`x y` = 5", b'{"x\\u0020y":5}'),
    ("`\u00fc` = 5", b'{"\xc3\xbc":5}'),
    ("`\u00fc` = 5", b'{"\\u00FC":5}'),
    ("`it's` = 5", b'{"it\'s":5}'),
    ("`a/b` = 5", b'{"a\\/b":5}'),
    ("arr[0] = 'abc'", b'{"arr":["abc"]}'),
    ("m['k'] = 'abc'", b'{"m":{"k":"abc"}}'),
    (" OR ".join(f"i = {n}" for n in range(1_500)), b'{"i":1499}'),
    (" AND ".join(f"i <> {n}" for n in range(1_500)), b'{"i":2000}'),
    (f"i IN ({', '.join(map(str, range(5_000)))})", b'{"i":4999}'),
    (f"s IN ({', '.join(repr(f'key{n}') for n in range(5_000))})", b'{"s":"key4999"}'),
)

CSV_SCHEMA = (
    "i int, x double, dec decimal(10,2), s string, d date, ts timestamp, bo boolean, b tinyint, whole decimal(5,0)"
)
CSV_PINS: tuple[tuple[dict[str, str], str, bytes], ...] = (
    ({}, FIVE_MINUTES, b",,,,,2015-03-08T07:04:00Z"),
    ({}, FIVE_MINUTES, b',,,,,"2015-03-08 07:04:00.5+00:00"'),
    ({}, FIVE_MINUTES, b",,,,,2015-3-08 07:04:00Z,true"),
    ({}, FIVE_MINUTES, b",,,,,2015-03-08T07:04:00 UTC"),
    ({}, FIVE_MINUTES, b",,,,,2015-03-08T03:04:00-04:00"),
    ({"sep": ":"}, FIVE_MINUTES, b':::::"2015-03-08T07:04:00Z"'),
    ({"timeZone": "America/New_York"}, FIVE_MINUTES, b",,,,,2015-03-08T02:04:00"),
    ({"timeZone": "America/New_York"}, FIVE_MINUTES, b",,,,,2015-03-08T03:04:00,"),
    ({"timeZone": "Asia/Kathmandu"}, FIVE_MINUTES, b",,,,,2015-03-08 12:49:00"),
    ({}, "x > 14285.0", b",NaN"),
    ({}, "x > 14285.0", b",Infinity"),
    ({}, "x < 14285.0", b",-Inf"),
    ({}, "x > 14285.0", b",0014285.5"),
    ({}, "x > 14285.0", b",123456789012345678901234567890"),
    ({"positiveInf": "5"}, "x > 14285.0", b",5"),
    ({}, "dec > 142.85", b',,"1,142.8"'),
    ({}, "dec < -142.85", b",,-99999999"),
    ({}, "i = 5", b"005"),
    ({}, "i = 5", b"+5,"),
    ({}, "i = -5", b"-05"),
    ({}, "i = 0", b"-0"),
    ({}, "i = 5", "\u0665".encode()),
    ({}, "i = 12", "1\uff12,".encode()),
    ({}, "i = 5", b'"5"'),
    ({}, "x = 100", b",1e2"),
    ({}, "x = 0.5", b",.5"),
    ({}, "x = 1", b",0x1p0"),
    ({}, "x = 5", b", 5 "),
    ({}, "dec = 1234.5", b',,"1,234.5"'),
    ({}, "dec = 1.00", b",,0.995"),
    ({"sep": ";"}, "dec = 1234", b";;1,234"),
    ({"sep": ";"}, "dec = -5", b";;-,5"),
    ({"sep": ";"}, "dec = 5", b";;,5"),
    ({}, "dec = 100", b',,"1e,2"'),
    ({}, "dec = 0.5", b',,".,5"'),
    ({"sep": ";"}, "dec = 100", b";;1e,2"),
    ({"sep": ",;"}, "dec = 1234", b",;,;1,234"),
    ({}, "whole = 5", b",,,,,,,,4.5"),
    ({}, "s = 'abc'", b",,,abc"),
    ({}, "s = 'abc'", b',,,"abc",'),
    ({}, "s = 'a,b'", b',,,"a,b"'),
    ({}, "s = 'say \"hi\"'", b',,,"say \\"hi\\""'),
    ({"escape": '"'}, "s = 'say \"hi\"'", b',,,"say ""hi"""'),
    ({}, "s = 'ab\"cd'", b',,,ab"cd'),
    ({}, "s = '\ufffd'", b",,,\xff"),
    ({}, "s LIKE 'abc\ufffd%'", b",,,abc\xff"),
    ({"ignoreLeadingWhiteSpace": "true"}, "s = 'abc'", b",,,  abc"),
    ({"sep": "||"}, "s = 'abc'", b"1||||||abc"),
    ({"sep": "\t"}, "s = 'abc'", b"1\t\t\tabc\t"),
    ({"emptyValue": "5"}, "i = 5", b'"",1'),
    ({"emptyValue": "abc"}, "s = 'abc'", b',,,""'),
    ({"emptyValue": "1995-01-05"}, "d = '1995-01-05'", b',,,,""'),
    ({"nullValue": "abc"}, "s = 'abcd'", b",,,abcd"),
    ({}, "d < '1995-01-01'", b",,,,0000-06-30"),
    ({}, "d < '1995-01-01'", b",,,,-0500-06-30"),
    ({}, "d > '1995-01-01'", b",,,,+12345-06-07"),
    ({}, "d > '1995-01-01'", b",,,,12345"),
    ({}, "d = '1995-01-05'", b",,,,1995-1-5"),
    ({}, "d = '1995-01-05'", b",,,,19GMT95-01-05"),
    ({}, "d = '1995-01-01'", b",,,,1995"),
    ({}, "d = '1582-10-10'", b",,,,1582-10-10"),
    ({"dateFormat": "dd/MM/yyyy"}, "d = '1995-01-05'", b",,,,05/01/1995"),
    ({}, "ts > '2000-01-01'", b",,,,,12:30:00"),
    ({}, "ts = '1995-01-05 00:00:00+18:00'", b",,,,,1995-01-03T12:00:00-18:00"),
    ({}, "ts = '9999-12-31 12:00:00'", b",,,,,10000-01-01T06:00:00+18:00"),
    ({}, "ts BETWEEN '9999-12-31 00:00:00' AND '9999-12-31 23:00:00'", b",,,,,10000-01-01T06:00:00+18:00"),
    ({}, "bo", b",,,,,,TRUE"),
    ({}, "NOT bo", b",,,,,,False,"),
    ({}, "NOT bo", ",,,,,,fal\u017fe,".encode()),
    ({}, "b = -56", b",,,,,,,-56"),
)


MANY = f"i IN (0, {', '.join(str(n) for n in range(197, 19_701, 197))})"
MANY_LAST = MANY.replace("i IN", "z IN")
MANY_NEGATIVE = f"l IN ({', '.join(str(-n) for n in range(197, 19_701, 197))})"
WIDE_SCHEMA = "i int, s string, l bigint, d date, z int"
WIDE_PINS: tuple[tuple[str, bytes], ...] = (
    (MANY, b"197"),
    (MANY, b"197,x"),
    (MANY, b"00197,x,,,"),
    (MANY, b"+197,x"),
    (MANY, b"+00197"),
    (MANY, b'"197",x'),
    (MANY, b'"+197",x'),
    (MANY, b'"00197"'),
    (MANY, b'"197'),
    (MANY, b"0"),
    (MANY, b"000,"),
    (MANY, b"-0,"),
    (MANY, b'"-0",'),
    (MANY, "\u0661\u0669\u0667,".encode()),
    (MANY, "1\uff197,".encode()),
    (MANY_LAST, b"1,x,1,,19700"),
    (MANY_LAST, b"1,x,1,,+19700"),
    (MANY_LAST, b"1,x,1,,019700"),
    (MANY_LAST, b'1,x,1,,"19700"'),
    (MANY_LAST, b'1,"x,y,z",1,,19700'),
    (MANY_LAST, b'1,"x,\\",y",1,,19700'),
    (MANY_LAST, b"1,x,1,,19700,more"),
    (MANY_LAST, b"197,x,1,,19700"),
    (MANY_NEGATIVE, b"1,x,-394"),
    (MANY_NEGATIVE, b"1,x,-00394,"),
    (MANY_NEGATIVE, b'1,x,"-394",'),
    (MANY_NEGATIVE, b'"1",x,-394,'),
    ("d >= '1995-03-02' AND d < '2003-02-03'", b"1,x,1,1995-03-02"),
    ("d >= '1995-03-02' AND d < '2003-02-03'", b"1,x,1,1996"),
    ("d >= '1995-03-02' AND d < '2003-02-03'", b"1,x,1,02002-1-1,"),
    ("d >= '1995-03-02' AND d < '2003-02-03'", b'1,"x, 1995-03-01",1,2003-02-02'),
    ("d >= '1995-03-02'", b"1,x,1,9999-12-31"),
    ("d >= '1995-03-02'", b"1,x,1,+294246-12-31"),
    ("d < '1995-03-02'", b"1,x,1,0000-01-01"),
    ("d < '1995-03-02'", b"1,x,1,0999-01-01,5"),
    ("s = 'abc'", b"abc,abc"),
    ("s LIKE '%abc%'", b"abc,xabcx,abc"),
    ("s LIKE '%abc%'", b'1,"x,abc",1'),
    ("s = 'abc' OR i = 197", b"197"),
    ("s = 'abc' OR i = 197", b"1,abc"),
)


def _case(source_format: SourceFormat, schema: str, options: dict[str, str], pins: list[tuple[str, bytes]]) -> TextCase:
    lines = tuple(line for _, line in pins)
    predicates = tuple(dict.fromkeys(where for where, _ in pins))
    return TextCase(
        source_format, StructType.fromDDL(schema), options, lines, tuple(b"\n" for _ in lines), predicates, ansi=False
    )


def _check(spark: SparkSession, case: TextCase, pins: list[tuple[str, bytes]], path: Path) -> list[str]:
    """Return the problems: lines that Spark does not keep, and lines that a pattern misses."""
    evaluation = evaluate(spark, case, path)
    assert not evaluation.raised
    fold = ConstantCache(spark)
    wrong = []
    for number, (where, line) in enumerate(pins):
        if number not in {evaluation.origins[row] for row in evaluation.kept[where]}:
            wrong.append(f"Spark drops {line!r} for {where[:80]}")
        wrong += [
            f"{where[:80]} misses {line!r}"
            for pattern in byte_patterns(case, where, fold)
            if not matches(pattern, line, b"\n")
        ]
    return wrong


def test_json_lines_that_spark_keeps_match(spark: SparkSession, tmp_path: Path) -> None:
    pins = list(JSON_PINS)
    case = _case(SourceFormat.JSON, JSON_SCHEMA, {}, pins)
    assert _check(spark, case, pins, tmp_path / "data.json") == []


@pytest.mark.parametrize("text", sorted({str(sorted(options.items())) for options, _, _ in CSV_PINS}))
def test_csv_lines_that_spark_keeps_match(spark: SparkSession, text: str, tmp_path: Path) -> None:
    group = [(options, where, line) for options, where, line in CSV_PINS if str(sorted(options.items())) == text]
    pins = [(where, line) for _, where, line in group]
    case = _case(SourceFormat.CSV, CSV_SCHEMA, group[0][0], pins)
    assert _check(spark, case, pins, tmp_path / "data.csv") == []


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
def test_matches_are_assigned_to_fields_with_all_line_ends(spark: SparkSession, ends: bytes, tmp_path: Path) -> None:
    """The last line has no terminator, and splits begin anywhere."""
    path = tmp_path / "data.csv"
    pins = list(WIDE_PINS)
    case = _case(SourceFormat.CSV, WIDE_SCHEMA, {}, pins)
    case = replace(case, terminators=(*(ends for _ in pins[1:]), b""))
    assert _check(spark, case, pins, path) == []
    evaluation = evaluate(spark, case, path)
    for where, kept in evaluation.kept.items():
        lines = Counter(case.lines[evaluation.origins[row]] for row in kept)
        for pattern in byte_patterns(case, where, ConstantCache(spark)):
            for split in (path.stat().st_size, 1, 7, 60):
                assert not lines - candidates(case, pattern, path, split), (where[:60], pattern.label, split)


@pytest.mark.parametrize(
    ("where", "line"),
    [
        (MANY, b"198,197,197,,197"),
        (MANY_LAST, b"197,197,197,,198"),
        (MANY_LAST, b"+197,x,1,,198"),
        (MANY_LAST, b'1,x,1,197,198,"197"'.replace(b'"', b"")),
        ("d >= '1995-03-02' AND d < '1995-04-01'", b"1,1995-03-05,1,1996-01-01,"),
        ("d >= '1995-03-02' AND d < '1995-04-01'", b'1,1995-03-05,1,1996-01-01,"x"'),
        ("d < '1995-03-02'", b"1,x,1,1996-01-01,"),
        ("s = 'abc'", b"1,abcd,abc"),
        ("s LIKE '%abc%'", b"1,abd,abc"),
    ],
)
def test_matches_in_other_fields_are_dropped(spark: SparkSession, where: str, line: bytes) -> None:
    _check_dropped(spark, _case(SourceFormat.CSV, WIDE_SCHEMA, {}, [(where, line)]), where, line)


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("i = 7", b'{"i":8}'),
        ("i = 7", b'{"l":7}'),
        ("i BETWEEN 10 AND 19", b'{"i":20}'),
        ("s = 'abc'", b'{"s":"abcd"}'),
        ("s LIKE 'abc%'", b'{"s":"xabc"}'),
        ("s LIKE '%abc%'", b'{"s":"acb"}'),
        ("d = '1995-01-05'", b'{"d":"1995-01-06"}'),
        ("ts = '1995-01-05'", b'{"ts":"1995-01-08 00:00:00"}'),
        ("dec = 5", b'{"dec":6.01}'),
        ("x = 5", b'{"x":6.5}'),
        ("bo", b'{"bo":false}'),
        ("st.b.c = 'abc'", b'{"st":{"b":{"c":"abd"}}}'),
        ("i = 7 OR l = 7", b'{"i":8,"l":9}'),
        ("i > 5 AND i < 8", b'{"i":9}'),
        ("NOT (i < 5 OR i > 8)", b'{"i":9}'),
        ("i IS NOT NULL", b'{"i":null}'),
        (FIVE_MINUTES, b'{"ts":"2015-03-08T07:06:00Z"}'),
        (FIVE_MINUTES, b'{"ts":"2015-03-08T06:59:00.123Z"}'),
        (FIVE_MINUTES, b'{"ts":"2015-03-08 06:04:00+00:00"}'),
        (FIVE_MINUTES, b'{"ts":"2015-03-09T07:04:00Z"}'),
        (FIVE_MINUTES, b'{"ts":"2014-03-08T07:04:00Z"}'),
        (
            "ntz BETWEEN TIMESTAMP_NTZ'2015-03-08 07:00:00' AND TIMESTAMP_NTZ'2015-03-08 07:05:00'",
            b'{"ntz":"2015-03-08T07:06:00"}',
        ),
        ("x > 14285.0", b'{"x":14284.5}'),
        ("x > 14285.0", b'{"x":-14286.0}'),
        ("x < -5.5", b'{"x":-4.9}'),
        ("x < -5.5", b'{"x":6.0}'),
        ("dec > 142.85", b'{"dec":141.99}'),
    ],
)
def test_lines_that_cannot_match_are_dropped(spark: SparkSession, where: str, line: bytes) -> None:
    _check_dropped(spark, _case(SourceFormat.JSON, JSON_SCHEMA, {}, [(where, line)]), where, line)


def _check_dropped(spark: SparkSession, case: TextCase, where: str, line: bytes) -> None:
    patterns = byte_patterns(case, where, ConstantCache(spark))
    assert patterns
    assert not any(matches(pattern, line, b"\n") for pattern in patterns)
