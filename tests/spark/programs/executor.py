"""An executor's JVM opens a log of the metadata table first; with `without`, it is not prepared.

Prints whether Hudi takes the metadata table's schema for its own, which it compares by identity.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from hudilab.settings_file import read_options
from hudilab_spark.java import find_java, spark_home

PROJECT = Path(__file__).resolve().parents[3]
PREPARES = "spark.kryo.classesToRegister"


def main(without: bool) -> None:
    os.environ |= {"JAVA_HOME": str(find_java().home), "SPARK_HOME": str(spark_home())}
    options = read_options(PROJECT / "conf" / "spark-defaults.conf")
    assert PREPARES in options
    jars = (PROJECT / "jars" / "core").glob("*.jar")
    options["spark.driver.extraClassPath"] = os.pathsep.join(map(str, jars))
    if without:
        del options[PREPARES]
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.range(1).count()  # a task has run
    jvm: Any = spark._jvm
    hudi = jvm.org.apache.hudi
    text = hudi.avro.model.HoodieMetadataRecord.getClassSchema().toString()
    parsed = jvm.org.apache.avro.Schema.Parser().parse(text)
    schemas = hudi.common.schema
    used = schemas.HoodieSchemaCache.intern(schemas.HoodieSchema.fromAvroSchema(parsed))
    payload = jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload")
    own = payload.getDeclaredField("HOODIE_METADATA_AVRO_SCHEMA")
    own.setAccessible(True)
    identity = jvm.java.lang.System.identityHashCode
    print(identity(own.get(None)) == identity(used.toAvroSchema()))
    spark.stop()


if __name__ == "__main__":
    main("without" in sys.argv[1:])
