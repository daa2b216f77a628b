"""List a folder on S3, and delete others: folders.py LISTED DELETED...; prints both as JSON."""

import json
import sys

from hudi_sink.files import delete_tree, exists, file_system, list_files
from hudilab_jobs.settings import load_settings
from hudilab_spark.session import open_session

spark = open_session(load_settings(), app="folders", groups=("core", "s3"))
listed, *deleted = sys.argv[1:]
statistics = file_system(spark, listed)[0].getStorageStatistics()
before = statistics.getLong("object_list_request")
report: dict[str, object] = {"found": [[one.path, one.size] for one in list_files(spark, listed)]}
report["requests"] = statistics.getLong("object_list_request") - before
report["deleted"] = [
    [exists(spark, folder), delete_tree(spark, folder), exists(spark, folder)] for folder in deleted
]
print(json.dumps(report))
spark.stop()
