"""Names for tables: a Hive metastore in which other programs find them.

Start reading at `register.Catalog`; `metastore` asks one for its status, without Spark.
"""
