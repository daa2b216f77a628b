#!/bin/sh
# Install the lab in its own folder: .venv from requirements.lock, the jars of jars/jars.lock, every
# download held to its hash. The Dockerfile runs it in steps (packages, jars, rest), a layer each;
# without a step it does all, on any machine with a Python that the lab supports.
set -eu

lab=$(cd "$(dirname "$0")/.." && pwd)
cd "$lab"
steps=${1:-packages jars rest}
for step in $steps; do
    case $step in
        packages)
            "${PYTHON:-python3}" tools/bootstrap.py
            ;;
        jars)
            # With the archive of classes: sessions start in half the time.
            .venv/bin/python docker/jars.py core kafka msk s3 s3proxy avro
            ;;
        rest)
            # Volumes are mounted here: a new one takes its owner from the image.
            home=${HUDILAB_HOME:-$lab/.lab}
            mkdir -p "$home/notebooks" "$home/services/s3" "$home/spark-events" "$home/spark-work"
            # The bill of materials, for audits.
            .venv/bin/python docker/sbom.py sbom.json
            ;;
        *)
            echo "build.sh: unknown step $step; leave it out, or use packages, jars or rest" >&2
            exit 2
            ;;
    esac
done
