"""Hadoop's configuration, which Spark and Hudi send along with each job and read in each task."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession

# Hadoop's defaults for MapReduce, YARN and other daemons, and for file systems without a jar here.
UNREAD = (
    *("mapreduce.", "yarn.", "ha.", "hadoop.http.", "hadoop.registry.", "hadoop.zk."),
    *("adl.", "fs.adl.", "fs.azure.", "fs.ftp.", "fs.viewfs."),
)
S3 = "fs.s3a."


def drop_unread_defaults(spark: SparkSession, *, s3: bool) -> None:
    """Take defaults that nothing here reads out of the session's Hadoop configuration.

    Of 970 keys, less than a third is left; in a new session, appends take a fifth less time. Keys
    of the settings (`spark.hadoop.*`) stay. Source: Hadoop 3.3.4 `Configuration.write`;
    benchmarks/HISTORY.md.

    Args:
        s3: Whether the session may read S3.
    """
    jvm: Any = spark._jvm
    hadoop, conf = jvm.org.apache.hadoop, cast(Any, spark)._jsc.hadoopConfiguration()
    # Whichever class is the first to add defaults of its own makes Hadoop load all of them again.
    hadoop.hdfs.HdfsConfiguration.init()
    jvm.java.lang.Class.forName("org.apache.hadoop.mapred.JobConf")
    configured = {
        key.removeprefix("spark.hadoop.") for key, _ in spark.sparkContext.getConf().getAll()
    }
    keys = str(jvm.java.lang.String.join(",", conf.getPropsWithPrefix("").keySet())).split(",")
    unread = UNREAD if s3 else (*UNREAD, S3)
    gone = ",".join(key for key in keys if key.startswith(unread) and key not in configured)
    # By a consumer made in the JVM: 800 calls from here would take a second.
    java = jvm.java.lang
    lookup, types = java.invoke.MethodHandles.publicLookup(), java.invoke.MethodType
    unset = types.methodType(java.Void.TYPE, java.Class.forName("java.lang.String"))
    each = java.invoke.MethodHandleProxies.asInterfaceInstance(
        java.Class.forName("java.util.function.Consumer"), lookup.bind(conf, "unset", unset)
    )
    jvm.java.util.regex.Pattern.compile(",").splitAsStream(gone).forEach(each)
