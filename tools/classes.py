"""List the classes that Spark and Hudi load in jars/classes.txt.gz, for the archive of classes.

Run it when Spark's, Hudi's or Java's version changes; an old list works, but helps less.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hudilab_spark.class_archive import CLASSES
from hudilab_spark.environment import JAVA_OPTIONS

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "jars" / CLASSES
# What lessons do: an appended stream, an upserted and compacted table, queries, a procedure.
TRAINING = """
from hudi_sink import ExactlyOnceSink
from hudilab import load_settings, readings_table, sensor_stream
from hudilab_spark import drain, open_session
from hudilab_spark.warehouse import prepare, sql_path

settings = load_settings()
spark = open_session(settings, app="classes")
sizes = {"sensors": 3, "seed": 1, "rows": 600}
upsert = {"operation": "upsert", "buckets": 1}
tables = {
    "appended": readings_table(name="appended"),
    "copied": readings_table(name="copied", **upsert),
    "merged": readings_table(name="merged", table_type="MERGE_ON_READ", **upsert),
}
for name, spec in tables.items():
    location = prepare(settings, table=name)
    sink = ExactlyOnceSink(spark, spec, location, sizes, 12)
    rows = sensor_stream(spark, rows_per_batch=50, **sizes).writeStream
    query = rows.foreachBatch(sink.write_batch).option("checkpointLocation", location.checkpoint)
    drain(query.start(), batches=12, deadline=300)
    print(spark.read.format("hudi").load(location.table).count())
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{sql_path(spark, location.table)}'")
    print(spark.sql(f"SELECT sensor_id, count(*) FROM {name} GROUP BY 1 ORDER BY 1").toPandas())
    spark.sql(f"CALL show_commits(table => '{name}')").show()
"""


def recording_options(listed: Path) -> str:
    """Return the JVM options that write every class that the JVM loads to a file, as it ends."""
    # An archive that does not exist keeps the session from using the lab's.
    none = listed.with_name("none")
    return f"-XX:DumpLoadedClassList={listed} -Xshare:auto -XX:SharedArchiveFile={none}"


def write_classes(listed: Path, out: Path) -> int:
    """Write the list that `make_archive` reads from what a JVM recorded; return its lines."""
    lines = {line for line in listed.read_text().splitlines() if not line.startswith("#")}
    # Classes that another class loader read from a file have its path in their line.
    names = [line for line in lines if "source:" not in line]
    text = "\n".join(sorted(names, key=lambda line: (line[0] == "@", line))) + "\n"
    out.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    return len(names)


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        listed = Path(home, "classes.txt")
        options = recording_options(listed)
        env = os.environ | {"HUDILAB_HOME": home, JAVA_OPTIONS: options, "RUNTIME_ENV": ""}
        subprocess.run([sys.executable, "-c", TRAINING], env=env, check=True)
        lines = write_classes(listed, OUT)
    print(f"{OUT.relative_to(ROOT)}: {lines} lines, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
