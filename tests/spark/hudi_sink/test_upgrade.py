"""A stream goes on through an upgrade of its table: each row once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from running import folder, start_stream

from hudi_inspect import inspect
from hudi_sink.services import TableServices
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import TableError
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation, locate
from hudilab_spark.streams import drain

pytestmark = pytest.mark.deep
SIZES = {"sensors": 2, "seed": 1}
UPSERTS = {"record_key": ("reading_id",), "operation": "upsert"}


@pytest.mark.parametrize("version", ["6", "8"])
@pytest.mark.parametrize("fields", [{}, UPSERTS, UPSERTS | {"table_type": "MERGE_ON_READ"}])
def test_a_stream_through_an_upgrade(
    spark: SparkSession, location: TableLocation, version: str, fields: dict[str, str]
) -> None:
    spec = readings_table(**fields)
    older = {"hoodie.write.table.version": version, "hoodie.write.auto.upgrade": "false"}

    def run(starts: int, extra: dict[str, str]) -> int:
        """The version of the table after so many starts, with a batch each."""
        source = {"rows": 60, "batches": 3, **SIZES}
        sink = ExactlyOnceSink(spark, spec, location, source, 3, extra=extra)
        for _ in range(starts):
            readings = sensor_stream(spark, rows_per_batch=20, rows=60, **SIZES)
            drain(start_stream(readings, sink.write_batch, location, once=True), deadline=120)
        return inspect(location.table).table.version

    assert run(2, older) == int(version)
    # As a driver that dies between Hudi's commit and Spark's record of it.
    (folder(location.checkpoint) / "commits" / "1").unlink()
    assert run(2, {}) == 9
    stored = spark.read.format("hudi").load(location.table)
    assert (stored.count(), stored.select("reading_id").distinct().count()) == (60, 60)


@pytest.mark.parametrize("name", ["with blank", "50%", "a#b"])
def test_an_upgrade_that_would_lose_commits_is_refused(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """And Hudi does lose them; a table of version 8 keeps them."""
    spec, kept = readings_table(**UPSERTS), {"hoodie.write.auto.upgrade": "false"}
    readings = sensor_readings(spark, rows=60, **SIZES)
    for version in (8, 6):
        location = locate("warehouse", "lab", f"v{version}", is_local=True, home=tmp_path / name)
        older = {"hoodie.write.table.version": str(version)} | kept

        def write(extra: dict[str, str], table: str = location.table) -> int:
            options = spec.write_options(extra)
            readings.write.format("hudi").options(**options).mode("append").save(table)
            return spark.read.format("hudi").load(table).count()

        assert write(older) == 60
        if version == 6:
            with pytest.raises(TableError, match=r"Hudi 1\.2 would lose its commits"):
                ExactlyOnceSink(spark, spec, location, SIZES, shared=True)
            with pytest.raises(TableError, match=r"Hudi 1\.2 would lose its commits"):
                TableServices(spark, location.table, stopped=True)
            ExactlyOnceSink(spark, spec, location, SIZES, shared=True, extra=kept)
        assert write({}) == {6: 120, 8: 60}[version]
