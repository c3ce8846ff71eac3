"""Tells JSON lines that mean the same as a text and as bytes from those that may not.

Spark parses lines of files as bytes, and lines that are given to it as texts by another parser of Jackson's. Both give
the same for what is JSON. Where a token is none (`1.`, `nul`, a digit before a letter), Spark keeps what it has of an
array, a map or a struct and asks for the next token; the two parsers then stand at different characters.
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


def same_as_bytes(line: bytes) -> bool:
    """Whether Spark certainly makes the same of a line's text as of its bytes, whatever the schema."""
    text = line.decode("utf-8", "replace")
    try:
        _DECODER.raw_decode(text.lstrip(_BLANKS))
    except (ValueError, RecursionError):
        return _TOKENS.fullmatch(text) is not None
    return True
