"""Connect SQL and streams to the settings' Hive metastore."""

from __future__ import annotations

from pyspark.sql import SparkSession

from hudi_sink.hive_sync import Catalog
from hudi_sink.metastore import Metastore, trouble
from hudilab.errors import SessionError
from hudilab.paths import TableLocation
from hudilab.settings import Settings
from hudilab.table import TableSpec
from hudilab_spark.conf import METASTORE_GROUP
from hudilab_spark.hive_group import Hive


def catalog_settings(settings: Settings) -> dict[str, str]:
    """Return the Spark settings with which SQL uses the settings' metastore.

    Raises:
        SessionError: the metastore does not answer, and Spark would retry for minutes.
    """
    group = settings.group(METASTORE_GROUP, Hive)
    if group is None:
        return {}
    uri = group.uri
    if problem := trouble(uri):
        raise SessionError(
            f"the metastore {uri} of group {METASTORE_GROUP!r} in "
            f"{settings.origin(METASTORE_GROUP, 'uri')} is not usable: {problem}",
            "start it (on this machine: hudilab services start metastore), or remove the group",
        )
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": uri,
        "spark.hadoop.hive.metastore.client.socket.timeout": "20s",  # the default: ten minutes
    }


def catalog_of(
    spark: SparkSession, settings: Settings, spec: TableSpec, location: TableLocation
) -> Catalog:
    """Return the catalog that registers a table with the settings' metastore, if any."""
    group = settings.group(METASTORE_GROUP, Hive)
    metastore = Metastore(group.uri, group.database_name) if group else None
    return Catalog(spark, spec, location, metastore)
