"""Commits of one row, with Hudi's metadata table: append.py TABLE COMMITS; prints the rows."""

import sys

from hudilab.settings import load_settings
from hudilab_spark.session import open_session

table, commits = sys.argv[1], int(sys.argv[2])
spark = open_session(load_settings())
options = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.metadata.enable": "true",
}
for _ in range(commits):
    spark.range(1).write.format("hudi").options(**options).mode("append").save(table)
print(spark.read.format("hudi").load(table).count())
spark.stop()
