"""JSON lines that Spark parses alike as strings and as bytes.

Spark parses lines of files as bytes, and lines of a string column with another parser of Jackson. Both return the same
for JSON. After a malformed token (`1.`, `nul`, a digit before a letter), Spark keeps the array, map or struct that it
has and continues with the next token, and the two parsers continue at different characters.
"""

from __future__ import annotations

import re
from json import JSONDecoder

_BLANKS = " \t\r"
_TOKENS = re.compile(
    r"""(?:[ \t\r\n{}\[\]:,]
    |"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*(?:"|$)
    |'(?:[^'\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*(?:'|$)
    |(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|NaN)(?=[ \t\r,\]}]|$)
    )*+""",
    re.VERBOSE,
)
_DECODER = JSONDecoder()


def parses_alike(line: bytes) -> bool:
    """Return whether Spark parses a line alike as a string and as bytes, for any schema."""
    text = line.decode("utf-8", "replace")
    try:
        _DECODER.raw_decode(text.lstrip(_BLANKS))
    except (ValueError, RecursionError):
        return _TOKENS.fullmatch(text) is not None
    return True
