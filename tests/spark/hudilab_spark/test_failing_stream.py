"""Two streams of one program: what becomes of one when the other's sink fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from spark.programs.driver import spec

from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError
from hudilab.generate import sensor_readings
from hudilab.paths import TableLocation, locate
from hudilab_spark.streams import run_until_end


def stream(spark: SparkSession, source: Path, location: TableLocation) -> DataStreamWriter:
    """A file of the source is a micro-batch; it ends with the last."""
    files = spark.readStream.schema(spark.read.parquet(str(source)).schema)
    rows = files.option("maxFilesPerTrigger", 1).parquet(str(source))
    sink = ExactlyOnceSink(spark, spec("bulk_insert"), location, {"folder": source.name})
    query = rows.writeStream.foreachBatch(sink.write_batch).trigger(availableNow=True)
    return query.option("checkpointLocation", location.checkpoint)


@pytest.mark.deep
def test_the_healthy_stream_runs_on_to_its_end(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    rows = sensor_readings(spark, 40, sensors=2, seed=1)
    rows.repartition(4).write.parquet(str(source))
    fails, runs = (
        locate(name, "lab", "readings", is_local=True, home=tmp_path) for name in ("fails", "runs")
    )
    streams = [stream(spark, source, location) for location in (fails, runs)]
    # A file where the table's folder would be: it cannot be created there.
    folder = Path(fails.table.removeprefix("file://"))
    folder.parent.mkdir(parents=True)
    folder.touch()
    with pytest.raises(StreamError) as caught:
        run_until_end([writer.start() for writer in streams])
    message = str(caught.value)
    assert message.startswith("the stream ended after 0 batches: ")
    assert message.endswith(
        "; fix the cause and start again: the stream resumes from its checkpoint"
    )
    assert f"hudilab: {message}; the other stream keeps running" in capsys.readouterr().err
    table = spark.read.format("hudi").load(runs.table).select(rows.columns)
    assert rows.exceptAll(table).count() == table.exceptAll(rows).count() == 0

    # With the cause fixed it resumes from its checkpoint.
    folder.unlink()
    run_until_end([stream(spark, source, fails).start()])
    table = spark.read.format("hudi").load(fails.table).select(rows.columns)
    assert rows.exceptAll(table).count() == table.exceptAll(rows).count() == 0
