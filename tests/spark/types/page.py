"""The tables of docs/types.md: what the tests find, so that the page says nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from spark.types.tables import DUCKDB, FOREIGN, HUDI_RS, INCREMENTAL, SNAPSHOT, SPECS, Cell, state
from spark.types.values import COLUMNS, LATE

PAGE = Path(__file__).resolve().parents[3] / "docs" / "types.md"
FEW = 3  # values that a cell of the page names
# The page's columns, and the readers whose cells each of them counts.
HEADS = {
    "Spark": (SNAPSHOT, INCREMENTAL),
    "hudi-rs": (HUDI_RS,),
    "DuckDB, base files": (DUCKDB,),
}
# Type, what its refusal says, in how many tables it was refused.
Refused = tuple[str, str, int]


def page(cells: Sequence[Cell], refusals: Sequence[Refused]) -> str:
    """The page as it is, with the tables of what was found between their marks."""
    text = PAGE.read_text("utf-8")
    made = {
        "counts": _counts(cells, refusals),
        "tables": _tables(cells),
        "stored": _stored(cells),
        "refused": (f"| `{kind}` | `{remedy}` |" for kind, remedy, _ in refusals),
    }
    for name, rows in made.items():
        text = with_table(text, name, rows)
    return text


def _table(text: str, name: str) -> re.Match[str]:
    match = re.search(rf"<!-- {name} -->\n\|.*\n\|[-|]+\n((?:.+\n)*)", text)
    assert match is not None, f"docs/types.md has no table marked {name}"
    return match


def rows_of(name: str) -> list[list[str]]:
    """The cells of each row that the page has in the table of this mark."""
    rows = _table(PAGE.read_text("utf-8"), name)[1].splitlines()
    return [row.strip("| ").split(" | ") for row in rows]


def with_table(text: str, name: str, rows: Iterable[str]) -> str:
    """The page's text with other rows in the table of this mark."""
    table_lines = _table(text, name)
    return (
        text[: table_lines.start(1)]
        + "".join(f"{row}\n" for row in rows)
        + text[table_lines.end(1) :]
    )


def _counts(cells: Sequence[Cell], refusals: Sequence[Refused]) -> Iterator[str]:
    counts = Counter((cell.reader in FOREIGN, cell.verdict == "right") for cell in cells)
    yield f"| right in Spark | {counts[False, True]:,} |"
    yield f"| refused before anything was written | {sum(refusal[2] for refusal in refusals):,} |"
    yield f"| **wrong in Spark** | **{counts[False, False]:,}** |"
    yield f"| right in hudi-rs and DuckDB | {counts[True, True]:,} |"
    yield f"| not read by hudi-rs or DuckDB | {counts[True, False]:,} |"


def _tables(cells: Sequence[Cell]) -> Iterator[str]:
    """The tables, and what was run on each after it was written and read."""
    services = {state(spec, ""): [""] for spec in SPECS}
    for name in dict.fromkeys(cell.state for cell in cells):
        spec = max((service for service in services if name.startswith(service)), key=len)
        services[spec].append(name.removeprefix(spec).removeprefix(", "))
    for spec, after in services.items():
        yield f"| {spec} | {', '.join(filter(None, after))} |"


def _stored(cells: Sequence[Cell]) -> Iterator[str]:
    of: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        of.setdefault((cell.row, cell.reader), []).append(cell)
    first: dict[str, str] = {}  # values: the first row that has them
    for row in dict.fromkeys(column.row for column in COLUMNS):
        heads = [
            [cell for reader in readers for cell in of[row, reader]] for readers in HEADS.values()
        ]
        read = " | ".join(map(_verdicts, heads))
        like = first.setdefault(values := _values(row), row)
        yield f"| `{row}` | {values if like == row else f'as `{like}`'} | {read} |"


def _verdicts(cells: Sequence[Cell]) -> str:
    """How many there are if all are right; else of each verdict, and which values, if few."""
    results: dict[str, Counter[str]] = {}
    for cell in cells:
        results.setdefault(cell.verdict, Counter())[cell.label] += 1
    if list(results) == ["right"]:
        return f"{len(cells):,}"
    shown = []
    for verdict, labels in results.items():
        text = f"{sum(labels.values()):,} {verdict}"
        if verdict != "right" and len(results) > 1 and len(labels) <= FEW:
            text += f": {', '.join(labels)}"
        shown.append(text)
    return "; ".join(shown)


def _values(row: str) -> str:
    plain = [column for column in COLUMNS if column.row == row and column.shape == "column"]
    labels = [label for label, _ in plain[0].values]
    late = [label for label in labels if label.endswith(LATE)]
    shown = [f"`{label}`" if "(" in label else label for label in labels if label not in late]
    if len(plain) > 1:
        shown = [label.partition(" ")[2] for label in labels]
        shown.append(f"of {len(plain)} types, with scales of none, half and all digits")
    return ", ".join([*shown, *([f"days also at {LATE}"] if late else [])])
