"""Fetch the broker's jars, and of the same version the one with the class of `kafka-topics.sh`."""

from __future__ import annotations

import re
from pathlib import Path

import requests

from hudilab_spark.fetch import fetch, repository

JARS = Path("/opt/hudilab/jars")
TO = Path("/opt/kafka/libs")

TO.mkdir(parents=True)
for jar in fetch(JARS, ["broker"]):
    (TO / jar.name).hardlink_to(jar)
(server,) = TO.glob("kafka-server-[0-9]*.jar")
version = re.sub(r"kafka-server-(.+)\.jar", r"\1", server.name)
tools = f"kafka-tools-{version}.jar"
answer = requests.get(f"{repository()}/org/apache/kafka/kafka-tools/{version}/{tools}", timeout=60)
answer.raise_for_status()
(TO / tools).write_bytes(answer.content)
