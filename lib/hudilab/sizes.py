"""Check the sizes of a stream of generated rows, and its table's type, before it starts."""

from __future__ import annotations

from typing import Any

from hudilab.errors import ParameterError
from hudilab.table import TABLE_TYPES

TICKERS = 17  # as many as `prices` has


def check_sizes(  # noqa: PLR0913 - a notebook's parameters, by name
    *,
    rows: Any = 1,
    batches: Any = 1,
    sensors: Any = 1,
    tickers: Any = 1,
    seed: Any = 0,
    trigger_seconds: Any = 0,
    table_type: Any = TABLE_TYPES[0],
) -> None:
    """Raise ParameterError, with all problems at once, for sizes that no stream can have."""
    problems = []
    for name, value, least in (
        ("rows", rows, 1),
        ("batches", batches, 1),
        ("sensors", sensors, 1),
        ("tickers", tickers, 1),
        ("seed", seed, None),
    ):
        if isinstance(value, bool) or not isinstance(value, int):
            problems.append(f"{name}={value!r} is not a whole number")
        elif least is not None and value < least:
            problems.append(f"{name}={value} is less than {least}")
        elif abs(value) >= 2**63 or (name == "sensors" and value > 1_000_000):
            problems.append(f"{name}={value} is too large for its column")
        elif name == "tickers" and value > TICKERS:
            problems.append(f"tickers={value} is more than the {TICKERS} available")
    if isinstance(trigger_seconds, bool) or not isinstance(trigger_seconds, int | float):
        problems.append(f"trigger_seconds={trigger_seconds!r} is not a number")
    elif not 0 <= trigger_seconds < float("inf"):
        problems.append(f"trigger_seconds={trigger_seconds} is not 0 or a positive number")
    if table_type not in TABLE_TYPES:
        problems.append(f"table_type={table_type!r} is not one of {', '.join(TABLE_TYPES)}")
    if not problems and batches > rows:
        problems.append(
            f"batches={batches} is more than rows={rows}, so some batches would be empty"
        )
    if problems:
        raise ParameterError(
            f"{'; '.join(problems)}", "change it in the parameters cell or with -p NAME VALUE"
        )
