"""Show the rows that a pipeline has quarantined; see `hudilab quarantine --help`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from hudi_inspect.units import plain
from hudilab.errors import many
from hudilab_cli.row_text import one_line, print_lines
from hudilab_jobs import PipelineName, command_session, short_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("query_id", "batch", "number", "reason", "row")
SHOWN = 200  # characters of a value in a block
REASONS = 20  # the most frequent reasons, with counts
# A refused row's fields from its source, and their labels in a block.
SOURCE = {
    "file": "file",
    "line": "line",
    "kafka_partition": "partition",
    "kafka_offset": "offset",
    "kafka_key": "key",
    "kafka_timestamp": "time",
    "kafka_value": "value",
}
# A reason without the row's values, so that equal problems are counted together.
_KIND = (
    r"regexp_replace(regexp_replace(reason, "
    r"'(?s)^(column .*?) has .*?, which is not (.*?)(, in the line .*|; .*)?$', '$1 is not $2'), "
    r"'(?s)(: |; ).*', '')"
)


@short_errors()
def command(
    name: PipelineName,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Number of rows to show.")] = 20,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all rows, each whole, a JSON object per row.")
    ] = False,
    run_id: Annotated[
        str, typer.Option(help="Read the quarantine in run-RUN_ID of the warehouse.")
    ] = "",
) -> None:
    """Show the rows that a pipeline has quarantined, with the reasons, newest batch first."""
    from hudilab_jobs.settings import find_groups, load_pipeline

    settings, own = load_pipeline(name)
    groups = find_groups(settings, own)
    locations = [settings.locate(each.table_name, run_id=run_id) for each in groups.values()]
    with command_session(settings, "quarantine") as spark:
        for location, (pipeline, group) in zip(locations, groups.items(), strict=True):
            rows = quarantined(spark, location.quarantine)
            if rows is None:
                line = f"{pipeline} has quarantined no row"
                if not group.quarantine:
                    line += f'; to quarantine rows, add "quarantine": "true" to pipeline {pipeline}'
                typer.echo(line, err=as_json)
                continue
            table = f"{location.name}_quarantine"
            print_lines(json_lines(rows, table) if as_json else blocks(rows, table, limit))


def quarantined(spark: SparkSession, uri: str) -> DataFrame | None:
    """Return the rows of a quarantine, newest batch first; None without that table."""
    from pyspark.sql import functions as F

    from hudi_sink.commits import Commits

    if not Commits(spark, uri).is_there():
        return None
    rows = spark.read.format("hudi").load(uri)
    # A new checkpoint counts its batches from 0 again.
    rows = rows.orderBy(F.desc("_hoodie_commit_time"), F.desc("batch"), "number")
    return rows.select(*COLUMNS)


def json_lines(rows: DataFrame, table: str) -> Iterator[str]:
    """Yield each row with its table as a JSON line, in which `row` is an object."""
    for row in rows.toLocalIterator():
        own = {"table": table} | {name: row[name] for name in COLUMNS[:-1]}
        # The stored text itself, because a parser would round numbers.
        yield one_line(f'{json.dumps(own, ensure_ascii=False)[:-1]}, "row": {row["row"]}}}')


def blocks(rows: DataFrame, table: str, limit: int) -> Iterator[str]:
    """Yield lines for a terminal: the number of rows per reason, and a block for each row."""
    from pyspark.sql import functions as F

    counts = rows.groupBy(F.expr(_KIND).alias("reason")).count()
    kinds = counts.orderBy(F.desc("count"), "reason").collect()
    count = sum(int(kind["count"]) for kind in kinds)
    if not count:
        yield f"{table} is empty"
        return
    yield f"{table}: {many(count, 'row')}"
    yield ""
    width = len(f"{kinds[0]['count']:,}")
    for kind in kinds[:REASONS]:
        yield f"{kind['count']:>{width},}  {_short(kind['reason'])}"
    if rest := kinds[REASONS:]:
        others = sum(int(kind["count"]) for kind in rest)
        yield f"{others:>{width},}  other reasons ({len(rest):,})"
    for row in rows.limit(limit).collect():
        yield ""
        yield f"batch {row['batch']}, number {row['number']}"
        parts = {"reason": row["reason"]} | _parts(row["row"])
        name_width = max(map(len, parts))
        for name, value in parts.items():
            yield f"  {name:<{name_width}}  {_short(value)}"
    if count > limit:
        yield ""
        yield f"{many(count - limit, 'more row')}; add --limit N, or print all rows with --json"


def _parts(row: str) -> dict[str, str]:
    """Return the fields of a row's block: its origin, and its text or columns."""
    # Numbers keep their stored digits.
    values = json.loads(row, parse_int=str, parse_float=str)
    parts = {
        name: "NULL" if values[key] is None else str(values[key])
        for key, name in SOURCE.items()
        if key in values and (key.startswith("kafka_") or values.keys() <= SOURCE.keys())
    }
    return parts if values.keys() <= SOURCE.keys() else parts | {"row": row}


def _short(text: str) -> str:
    """Return a text on one line, or the start of a long text with its length."""
    if len(text) <= SHOWN:
        return plain(text)
    return f"{plain(text[:SHOWN])}… ({len(text):,} characters)"
