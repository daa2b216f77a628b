"""Amazon MSK with IAM, as far as it can be proven without AWS: classes, options, handshake."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hudilab.settings import Settings
from hudilab_cli.servers import process
from hudilab_cli.servers.kafka import Broker
from hudilab_jobs.kafka.connection import Access

# One JVM for the driver and one for its executor, as on a cluster.
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from hudilab_jobs.settings import load_settings
from hudilab_spark.jars import verify
from hudilab_spark.session import open_session
from hudilab.errors import root_cause

groups, options = json.loads(sys.argv[1])
settings = load_settings()
jars = ":".join(map(str, verify(settings.project / "jars", groups)))
SparkSession.builder.config("spark.master", "local-cluster[1,1,1024]")
import hudilab_spark.conf as spark_conf
kept = spark_conf.overlay
spark_conf.overlay = lambda s: kept(s) | {
    "spark.master": "local-cluster[1,1,1024]", "spark.executor.extraClassPath": jars,
    "spark.authenticate": "false"}
spark = open_session(settings, app="msk", groups=groups)
told = {}
try:
    spark.read.format("kafka").options(**options).option("subscribe", "t").load().count()
except Exception as error:
    told["driver"] = root_cause(str(error))
rows = spark.createDataFrame([("k", "v")], "key string, value string")
try:
    rows.write.format("kafka").options(**options).option("topic", "t").save()
except Exception as error:
    told["executor"] = root_cause(str(error))
spark.stop()
print("TOLD" + json.dumps(told))
"""
QUICK = {
    "kafka.default.api.timeout.ms": "6000",
    "kafka.request.timeout.ms": "5000",
    "kafka.max.block.ms": "6000",
    "kafka.delivery.timeout.ms": "6000",
    "kafka.linger.ms": "0",
}
AWS = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "example",
}


def spark_options_of(settings: Settings, servers: str, *groups: str, **more: str) -> dict[str, str]:
    """What driver and executor say when they use IAM's options for these servers."""
    options = Access("b-1.example:9098").spark_options()
    options |= {"kafka.bootstrap.servers": servers, **QUICK, **more}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([["core", "kafka", *groups], options])],
        env=os.environ | AWS | {"HUDILAB_HOME": str(settings.home)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    line = next((text for text in done.stdout.splitlines() if text.startswith("TOLD")), "")
    assert line, done.stderr[-2000:]
    return dict(json.loads(line.removeprefix("TOLD")))


@pytest.mark.deep
def test_without_the_jar_the_class_is_missing(settings: Settings) -> None:
    options = spark_options_of(settings, f"127.0.0.1:{process.free_port()}")
    for text in (options["driver"], options["executor"]):
        assert "IAM" in text
        assert "could not be found" in text or "LoginException" in text


@pytest.mark.deep
def test_the_handshake_reaches_a_broker_that_has_no_iam(settings: Settings, secure: Broker) -> None:
    trust = {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(secure.ca),
    }
    options = spark_options_of(settings, secure.address, "msk", **trust)
    for text in (options["driver"], options["executor"]):
        assert "AWS_MSK_IAM" in text
        assert "not enabled" in text
