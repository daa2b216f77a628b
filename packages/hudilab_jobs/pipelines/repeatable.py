"""Refuse a query with values that change when Spark reads a batch again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hudi_sink.jvm import items
from hudilab_jobs.pipelines.sources import Source

# Spark calls these nondeterministic, but a row keeps its file.
_OF_THE_FILE = ("input_file_name", "input_file_block_start", "input_file_block_length")
_SUBQUERIES = ("scalarsubquery", "listquery", "exists")


def check_repeatable(source: Source[Any]) -> None:
    """Raise ConfigError if the group's query calls a function like `rand` or `uuid`.

    Spark reads a batch again for a retried task, in an initial load, and after a crash, so the
    index lookup or the sort order would not match the written rows. `current_timestamp()` is
    allowed, because a batch has a single time.
    """
    if source.group.select is None:
        return
    plan = source.selected_stream()._jdf.queryExecution().analyzed()
    if names := sorted(set(_changing(plan))):
        raise source.error(
            "select",
            f"{', '.join(f'{name}()' for name in names)} returns other values when Spark reads a "
            "batch again, as it does after a crash",
            "derive the value from the row, for example sha2(to_json(struct(*)), 256) or "
            "xxhash64(id); current_timestamp() is the batch's own time",
        )


def _changing(plan: Any) -> Iterator[str]:
    """Yield the nondeterministic functions above the view `source`."""
    if plan.deterministic() or plan.nodeName() == "View":
        return
    for expression in items(plan.expressions()):
        yield from _in_expression(expression)
    for child in items(plan.children()):
        yield from _changing(child)


def _in_expression(expression: Any) -> Iterator[str]:
    if expression.deterministic():
        return
    children = [child for child in items(expression.children()) if not child.deterministic()]
    for child in children:
        yield from _in_expression(child)
    name = str(expression.prettyName()).lower()
    if name in _SUBQUERIES:
        yield from _changing(expression.plan())
    elif not children and name not in _OF_THE_FILE:
        yield name
