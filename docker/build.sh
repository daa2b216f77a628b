#!/bin/sh
# Install the lab in its own folder: .venv from requirements.lock, the jars of jars/jars.lock, every
# download held to its hash. The Dockerfile runs it; so does any machine with Python 3.11.
set -eu

lab=$(cd "$(dirname "$0")/.." && pwd)
cd "$lab"
"${PYTHON:-python3.11}" tools/bootstrap.py
.venv/bin/hudilab jars core kafka msk s3 s3proxy --no-archive
# Volumes are mounted here: a new one takes its owner from the image.
home=${HUDILAB_HOME:-$lab/.lab}
mkdir -p "$home/services/s3" "$home/spark-events" "$home/spark-work"
