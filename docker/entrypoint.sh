#!/bin/sh
# What a container of the lab's image runs, in the foreground: entrypoint.sh ROLE [ARGUMENTS].
#   master       Spark's master (SPARK_MASTER_HOST, SPARK_MASTER_PORT, SPARK_MASTER_WEBUI_PORT)
#   worker       a worker of SPARK_MASTER_URL (SPARK_WORKER_CORES, ..._MEMORY, ..._WEBUI_PORT)
#   history      Spark's history server, of the applications in <HUDILAB_HOME>/spark-events
#   s3           an S3 server on S3_HOST (all addresses) and S3_PORT (9000)
#   jupyterlab   JupyterLab on the notebooks; JUPYTER_TOKEN is asked for, JUPYTER_HOST and ..._PORT
# Anything else is a command, with the lab's Python first on the PATH.
set -eu

lab=$(cd "$(dirname "$0")/.." && pwd)
venv=${HUDILAB_VENV:-$lab/.venv}
home=${HUDILAB_HOME:-$lab/.lab}
role=${1:-jupyterlab}
[ $# -eq 0 ] || shift

PATH=$venv/bin:$PATH
JAVA_HOME=$(python -c 'from hudilab.runtime.java.find import find_java; print(find_java().home)')
SPARK_HOME=$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
export PATH JAVA_HOME SPARK_HOME
export PYSPARK_PYTHON="$venv/bin/python"

deploy=org.apache.spark.deploy
case $role in
    master | worker | history)
        # They hand out work and start executors, which are processes of their own.
        export SPARK_DAEMON_MEMORY="${SPARK_DAEMON_MEMORY:-512m}"
        ;;
esac

case $role in
    master)
        exec "$SPARK_HOME/bin/spark-class" "$deploy.master.Master" "$@"
        ;;
    worker)
        : "${SPARK_MASTER_URL:?entrypoint.sh worker: set it to spark://host:port}"
        export SPARK_WORKER_DIR="${SPARK_WORKER_DIR:-$home/spark-work}"
        exec "$SPARK_HOME/bin/spark-class" "$deploy.worker.Worker" "$@" "$SPARK_MASTER_URL"
        ;;
    history)
        mkdir -p "$home/spark-events"
        port=${SPARK_HISTORY_PORT:-18080}
        where="-Dspark.history.fs.logDirectory=file:$home/spark-events"
        export SPARK_HISTORY_OPTS="$where -Dspark.history.ui.port=$port ${SPARK_HISTORY_OPTS:-}"
        exec "$SPARK_HOME/bin/spark-class" "$deploy.history.HistoryServer" "$@"
        ;;
    s3)
        umask 077
        serve='import sys; from hudilab.runtime.settings import load_settings; from hudilab.operations.servers import s3'
        serve="$serve; s3.serve(load_settings(), sys.argv[1])"
        exec python -c "$serve" "http://${S3_HOST:-0.0.0.0}:${S3_PORT:-9000}"
        ;;
    jupyterlab)
        # Whoever opens it runs programs here.
        : "${JUPYTER_TOKEN:?entrypoint.sh jupyterlab: choose a token}"
        export JUPYTER_TOKEN
        exec jupyter lab --no-browser --ip "${JUPYTER_HOST:-0.0.0.0}" \
            --port "${JUPYTER_PORT:-8888}" --ServerApp.port_retries=0 \
            --notebook-dir "$lab/notebooks" "$@"
        ;;
    *)
        exec "$role" "$@"
        ;;
esac
