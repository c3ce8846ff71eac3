"""Takes long lists of whole numbers out of a predicate's text: parsers need ten microseconds and more for each."""

from __future__ import annotations

import re
from itertools import count

from sqlglot import exp

from pushdown_spark.predicates.nodes import nodes_of

_LIST = re.compile(r"\bIN\s*\(\s*(\d{1,18}(?:\s*,\s*\d{1,18}){99,})\s*\)", re.IGNORECASE)
"""A hundred numbers and more, all of which Spark takes for integers of 32 or 64 bits."""
_LARGEST_INT = 2**31 - 1
_HIDING = re.compile(r"""['"`]|--|/\*|\$\{""")
"""What may hide words from who looks for them in a text: literals, quoted names, comments, variables."""
_MARK = 10**17


def shortened(text: str) -> str:
    """A predicate with one number of each type of each long list: Spark finds the same types and mistakes in it.

    >>> shortened("a IN (" + ", ".join(map(str, range(7, 200))) + ") OR b = 1")
    'a IN (7) OR b = 1'
    """
    if _HIDING.search(text):
        return text
    return _LIST.sub(lambda found: f"IN ({', '.join(map(str, _of_each_type(found[1])))})", text)


def _of_each_type(numbers: str) -> list[int]:
    """Of a list's numbers the first that Spark takes for an integer of 32 bits, and the first of 64, as they come."""
    found: dict[bool, int] = {}
    for number in map(int, numbers.split(",")):
        found.setdefault(number > _LARGEST_INT, number)
    return list(found.values())


class LongLists:
    """The long lists of one text, and the text with a mark in the place of each."""

    def __init__(self, text: str) -> None:
        self._lists: dict[str, list[str]] = {}
        numbers = count(_MARK)

        def marked(found: re.Match[str]) -> str:
            mark = str(next(numbers))
            self._lists[mark] = [number.strip() for number in found[1].split(",")]
            return f"IN ({mark})"

        is_plain = _HIDING.search(text) is None and str(_MARK)[:-3] not in text
        self.text = _LIST.sub(marked, text) if is_plain else text

    def put_back(self, tree: exp.Expr) -> bool:
        """Put the numbers in the place of their marks; False where a mark was not found as a list of one."""
        left = set(self._lists)
        for node in list(nodes_of(tree, exp.In)):
            mark = node.expressions[0].name if len(node.expressions) == 1 else ""
            if mark in left:
                left.remove(mark)
                node.set("expressions", [exp.Literal(this=number, is_string=False) for number in self._lists[mark]])
        return not left
