#!/bin/sh
# What a container of the lab's image runs, in the foreground: entrypoint.sh ROLE [ARGUMENTS].
#   master       Spark's master (SPARK_MASTER_HOST, SPARK_MASTER_PORT, SPARK_MASTER_WEBUI_PORT)
#   worker       a worker of SPARK_MASTER_URL (SPARK_WORKER_CORES, ..._MEMORY, ..._WEBUI_PORT)
#   history      Spark's history server, of the applications in <HUDILAB_HOME>/spark-events
#   s3           an S3 server on S3_HOST (all addresses) and S3_PORT (9000)
#   jupyterlab   JupyterLab on copies of the notebooks; JUPYTER_TOKEN is asked for, JUPYTER_HOST and ..._PORT
#   driver, executor   what Spark starts in a pod of Kubernetes, with the words of Spark's own image
# Anything else is a command, with the lab's Python first on the PATH.
set -eu

lab=$(cd "$(dirname "$0")/.." && pwd)
venv=${HUDILAB_VENV:-$lab/.venv}
home=${HUDILAB_HOME:-$lab/.lab}
role=${1:-jupyterlab}
[ $# -eq 0 ] || shift

PATH=$venv/bin:$PATH
JAVA_HOME=$(python -c 'from hudilab_spark.java import find_java; print(find_java().home)')
SPARK_HOME=$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
export PATH JAVA_HOME SPARK_HOME
export PYSPARK_PYTHON="$venv/bin/python"

# healthy.py asks this port.
port=
case $role in
    master) port=${SPARK_MASTER_WEBUI_PORT:-8080} ;;
    worker) port=${SPARK_WORKER_WEBUI_PORT:-8081} ;;
    history) port=${SPARK_HISTORY_PORT:-18080} ;;
    s3) port=${S3_PORT:-9000} ;;
    jupyterlab) port=${JUPYTER_PORT:-8888} ;;
esac
if [ -n "$port" ]; then
    mkdir -p "$home"
    echo "$port" >"$home/port"
fi

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
        where="-Dspark.history.fs.logDirectory=file:$home/spark-events"
        export SPARK_HISTORY_OPTS="$where -Dspark.history.ui.port=$port ${SPARK_HISTORY_OPTS:-}"
        exec "$SPARK_HOME/bin/spark-class" "$deploy.history.HistoryServer" "$@"
        ;;
    s3)
        umask 077
        serve='import sys; from hudilab.settings import load_settings; from hudilab_cli.servers import s3'
        serve="$serve; s3.serve(load_settings(), sys.argv[1])"
        exec python -c "$serve" "http://${S3_HOST:-0.0.0.0}:$port"
        ;;
    jupyterlab)
        # Whoever opens it runs programs here.
        : "${JUPYTER_TOKEN:?entrypoint.sh jupyterlab: choose a token}"
        export JUPYTER_TOKEN
        # On copies of the lessons in the home, as `make lab` does: nothing has run, nothing is solved.
        exec python "$lab/tools/lab.py" --no-browser --ip "${JUPYTER_HOST:-0.0.0.0}" \
            --port "$port" --ServerApp.port_retries=0 "$@"
        ;;
    driver)
        # Spark adds the properties file and the program.
        exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
            --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
            --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
        ;;
    executor)
        # One option each in SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 ...; they may hold spaces.
        number=0
        while value=$(printenv "SPARK_JAVA_OPT_$number"); do
            set -- "$@" "$value"
            number=$((number + 1))
        done
        exec "$JAVA_HOME/bin/java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
            -cp "${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \
            org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
            --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
            --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
            --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
            --podName "$SPARK_EXECUTOR_POD_NAME"
        ;;
    *)
        exec "$role" "$@"
        ;;
esac
