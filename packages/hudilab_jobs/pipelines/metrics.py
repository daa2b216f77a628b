"""Export the numbers of a pipeline's batches on Spark's page `/metrics/prometheus/`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession


def metrics_settings(port: str, name: str) -> dict[str, str]:
    """Return the Spark settings that open the UI with the metrics page at this port.

    Args:
        name: Prefix of the metrics' names, because Spark's default differs in each run.
    """
    return {
        "spark.ui.port": port,
        "spark.metrics.namespace": name,
        "spark.sql.streaming.metricsEnabled": "true",
    }


class Gauges:
    """A source of Spark's metrics: the numbers of the newest batch's report."""

    def __init__(self, spark: SparkSession) -> None:
        """Register the source, which is empty until the first report."""
        jvm: Any = spark._jvm
        self._codahale = jvm.com.codahale.metrics
        self._registry, self._gauges = self._codahale.MetricRegistry(), dict[str, Any]()
        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
        jvm.org.apache.spark.SparkEnv.get().metricsSystem().registerSource(self)

    def close(self) -> None:
        """Remove the numbers from the page."""
        # If the JVM has ended, the stream's own error is reported.
        with suppress(Py4JError, ConnectionError):
            self._registry.removeMatching(self._codahale.MetricFilter.ALL)

    def show(self, report: Mapping[str, float]) -> None:
        """Show the numbers of a new report."""
        for name, value in report.items():
            if name not in self._gauges:
                self._gauges[name] = self._codahale.DefaultSettableGauge()
                self._registry.register(name, self._gauges[name])
            self._gauges[name].setValue(value)

    def sourceName(self) -> str:
        """Return the prefix of the names; Spark calls this when the source is registered."""
        return "hudilab"

    def metricRegistry(self) -> Any:
        """Return the numbers; Spark calls this, too."""
        return self._registry

    class Java:
        """The Java interface that the methods above implement."""

        implements = ("org.apache.spark.metrics.source.Source",)
