"""Reads of a table's past: right, or refused where cleaning took files away."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hudilab.errors import TableError
from hudilab.generate import readings_table, sensor_readings
from hudilab_lessons.reads import answers, as_of, changes
from hudilab_lessons.timeline import instants

ROWS = 30
LONG_AGO = "20000101000000000"
OLD = "cleaning has deleted files of that time; the oldest instant is "
LATER = (
    "cleaning has deleted files of later commits; read the snapshot, then go on: "
    "changes(spark, table, '"
)
POLICIES = {
    "commits": {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained": "2"},
    "versions": {
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": "2",
    },
}


@pytest.mark.deep
@pytest.mark.parametrize("policy", ["commits", "versions"])
def test_a_cleaned_range_is_refused(spark: SparkSession, tmp_path: Path, policy: str) -> None:
    table = f"file://{tmp_path}/readings"
    spec = readings_table(operation="upsert", buckets=1)
    rows = sensor_readings(spark, ROWS, sensors=2, seed=1)

    def write(**more: str) -> None:
        options = spec.write_options({"hoodie.clean.automatic": "false"} | more)
        rows.write.format("hudi").options(**options).mode("append").save(table)

    def completed() -> list[str]:
        times = instants(spark, table)
        return [
            f"{completed:%Y%m%d%H%M%S%f}"[:17]
            for completed in times[times.action == "commit"].completed
        ]

    for _ in range(5):
        write()
    times = completed()
    assert [as_of(spark, table, instant).count() for instant in times] == [ROWS] * 5
    pairs = list(zip([LONG_AGO, *times], times, strict=False))
    assert [changes(spark, table, *pair).count() for pair in pairs] == [ROWS] * 5
    write(**{"hoodie.clean.automatic": "true", "hoodie.clean.max.commits": "1"}, **POLICIES[policy])
    times = completed()
    pairs = list(zip([LONG_AGO, *times], times, strict=False))
    reached, missed, refused = [], [], []
    for number, (begin, end) in enumerate(pairs, start=1):
        try:
            assert as_of(spark, table, end).count() == ROWS
            reached.append(number)
        except TableError as error:
            refused.append((str(error), f"{table} cannot be read as of {end}: {OLD}"))
        try:
            assert changes(spark, table, begin, end).count() == ROWS
        except TableError as error:
            missed.append(number)
            refused.append(
                (str(error), f"the changes of {table} since {begin} are incomplete: {LATER}")
            )
    names = {"as_of": as_of, "changes": changes, "spark": spark, "table": table}
    for message, expected in refused:
        assert message.startswith(expected)
        remedy = eval(message.rpartition(": ")[2], names)  # what it tells the reader to type
        assert remedy.count() >= ROWS
    # What can be read is a row of the newest commits, and some cannot.
    assert reached == list(range(reached[0], 7))
    assert reached[0] > 1
    assert missed == list(range(1, missed[-1] + 1))
    assert missed[-1] < 6
    # Side by side with Hudi's own reads, which return an error or nothing for them.
    past, count = answers(spark, table), str(ROWS)
    assert list(past.index[past["as_of()"] == count]) == reached
    assert list(past.index[past["changes()"] == "refused"]) == missed
    lost = {"commits": "error", "versions": "0"}[policy]
    assert list(past["time travel"]) == [lost] * (reached[0] - 1) + [count] * len(reached)
    assert set(past["incremental"]) == {"0", count}


def test_what_is_no_instant_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for read in (as_of, changes):
        with pytest.raises(TableError) as caught:
            read(spark, f"file://{tmp_path}/t", "2026-11-22")
        assert str(caught.value) == (
            "'2026-11-22' is not an instant: 17 digits, yyyyMMddHHmmssSSS in UTC; take one from "
            f"the timeline: hudilab inspect file://{tmp_path}/t"
        )
