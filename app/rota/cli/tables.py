"""Tables for people: columns as wide as what stands in them."""

from collections.abc import Iterable, Sequence


def table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield one line for each row; the first row is the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
