"""Say of each batch what it did: rows, speed, what was set aside, what the source still holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import many
from hudilab.paths import TableLocation
from hudilab_jobs.pipelines.source import Source
from hudilab_spark.streams import batches_done


class Reports:
    """Writes batches with a sink and reports each one once, as text or as JSON."""

    def __init__(
        self, source: Source[Any], sink: ExactlyOnceSink, location: TableLocation, *, as_json: bool
    ) -> None:
        self._source, self._ledger, self._location = source, sink, location
        self._as_json, self._told = as_json, -1
        self._aside: dict[int, int] = {}

    def write_batch(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch, and keep how many rows were set aside."""
        self._ledger.write_batch(batch, batch_id)
        self._aside[batch_id] = self._ledger.set_aside

    def new(self, query: StreamingQuery) -> Iterator[str]:
        """Yield a line for each batch that has ended since the last call."""
        # A stream is asked ten times a second, and all progress is up to 100 texts of JSON.
        if batches_done(query) <= self._told + 1:
            return
        for progress in query.recentProgress:
            number = int(progress["batchId"])
            # Spark also reports that there was nothing to do.
            if number > self._told and "addBatch" in progress["durationMs"]:
                self._told = number
                yield self._line(number, progress)

    def _line(self, number: int, progress: Mapping[str, Any]) -> str:
        rows, speed = int(progress["numInputRows"]), progress.get("processedRowsPerSecond", 0.0)
        aside, unit = self._aside.pop(number, 0), self._source.unit
        behind = self._source.behind(progress, self._location)
        if self._as_json:
            facts = {"batch": number, "rows": rows, "rows_per_second": round(speed, 1)}
            return json.dumps(facts | {"set_aside": aside, f"{unit}s_behind": behind})
        return (
            f"batch {number}: {many(rows, 'row')} ({speed:,.0f} a second), {aside:,} set aside, "
            f"{many(behind, unit)} behind"
        )
