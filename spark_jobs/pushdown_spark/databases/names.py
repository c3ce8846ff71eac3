"""Take the name of a table apart as a user writes it."""

from __future__ import annotations

import re

from pushdown_spark.errors import BadSpecError

_PARTS = re.compile(r'(?:"((?:[^"]|"")+)"|([^".]+))(?:\.|$)')


def table_name(text: str) -> tuple[str, ...]:
    """The parts of a name, the table's own last; parts are separated by dots, those in double quotes may have any.

    A name without a dot that does not begin with a quote is taken as it is. Raises BadSpecError for what is no name.
    """
    if "." not in text and not text.startswith('"'):
        parts = [text]
    else:
        parts, place = [], 0
        while place < len(text):
            found = _PARTS.match(text, place)
            if found is None:
                raise BadSpecError(
                    f"table: {text!r} is no name at character {place + 1}; quote parts with dots or quotes"
                )
            parts.append(found.group(2) or found.group(1).replace('""', '"'))
            place = found.end()
        if text.endswith("."):
            raise BadSpecError(f"table: {text!r} ends with a dot; name the table behind it")
    if not all(part.strip() for part in parts) or len(parts) > 3:
        raise BadSpecError(f"table: {text!r} is no name; give table, schema.table or catalog.schema.table")
    return tuple(parts)
