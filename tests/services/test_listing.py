"""Files of a table on S3 are found with few requests, however many folders it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import boto3
import pytest

from hudilab_cli.servers.s3 import S3Server

FOLDERS = 20
PROGRAM = """
import json, sys
from hudilab_jobs.settings import load_settings
from hudilab_spark.session import open_session
from hudi_sink.files import list_files
from hudi_sink.files import file_system

spark = open_session(load_settings())
uri = sys.argv[1]
statistics = file_system(spark, uri)[0].getStorageStatistics()
before = statistics.getLong("object_list_request")
found = list_files(spark, uri)
asked = statistics.getLong("object_list_request") - before
print(json.dumps({"found": [[one.path, one.size] for one in found], "asked": asked}))
spark.stop()
"""


@pytest.mark.deep
def test_folders_cost_no_requests(s3: S3Server, tmp_path: Path) -> None:
    keys = ConfigParser()
    keys.read(s3.credentials)
    client = boto3.Session().client(
        "s3", endpoint_url=s3.endpoint, region_name="us-east-1", **keys["hudilab"]
    )
    names = [f"p={number}/_x/{number}.parquet" for number in range(FOLDERS)]
    for name in names:
        client.put_object(Bucket="hudilab", Key=f"listing/{name}", Body=b"four")
    env = os.environ | dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "")
    env |= {"HUDILAB_HOME": str(tmp_path), "RUNTIME_ENV": "", "IS_LOCAL": "false", **s3.env()}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "s3a://hudilab/listing"],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["found"] == [[name, 4] for name in sorted(names)]
    assert 0 < report["asked"] <= 4  # is it there, what is it, and a thousand objects a page
