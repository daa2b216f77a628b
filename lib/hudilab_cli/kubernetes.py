"""A manifest for the Spark Operator of Kubernetes: the settings' job, in the lab's image."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

from hudilab.errors import BundleError
from hudilab.settings import Settings
from hudilab.settings_file import read_options
from hudilab_cli.deploy import CREDENTIALS, chosen_job, spark_properties
from hudilab_cli.submit import jar_groups
from hudilab_spark.jars import read_lock

LAB = "/opt/hudilab"  # in the image
USER = 1000  # the image's own
_IMAGE = re.compile(r"[\w.-]+(:\d+)?(/[\w.-]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_SHAPES = {
    "--image": "an image's name, such as hudilab:0.1.0",
    "--namespace": "a name of Kubernetes (lowercase letters, digits and -)",
    "--service-account": "a name of Kubernetes (lowercase letters, digits and -)",
    "--executors": "a number of 1 or more",
}


def application(
    settings: Settings, *, image: str, namespace: str, service_account: str, executors: int
) -> dict[str, Any]:
    """Return the SparkApplication for the job that group `spark.run.options` names.

    Source: sparkoperator.k8s.io/v1beta2; Spark 3.5, "Running Spark on Kubernetes".

    Args:
        service_account: of the driver, which starts executors; on AWS it gives both their role.

    Raises:
        BundleError: arguments are malformed; all are named at once.
        ConfigError: the settings do not have the group.
    """
    _refuse(image, namespace, service_account, executors)
    job = chosen_job(settings)
    pod = _pod(settings, service_account)
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": job.name, "namespace": namespace},
        "spec": {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "sparkVersion": version("pyspark"),
            "mainApplicationFile": f"local://{LAB}/lib/hudilab_jobs/{job.run.job}.py",
            "arguments": job.arguments,
            "sparkConf": spark_properties(settings) | _class_path(settings),
            "restartPolicy": _restarts(job.endless),
            "driver": {"cores": 1, "memory": "2g", **pod},
            "executor": {"instances": executors, "cores": 2, "memory": "2g", **pod},
        },
    }


def _refuse(image: str, namespace: str, service_account: str, executors: int) -> None:
    names = {"--namespace": namespace, "--service-account": service_account}
    wrong = [] if _IMAGE.fullmatch(image) else ["--image"]
    wrong += [option for option, name in names.items() if not _NAME.fullmatch(name)]
    wrong += [] if executors > 0 else ["--executors"]
    if wrong:
        problems = "; ".join(f"{option} is not {_SHAPES[option]}" for option in wrong)
        raise BundleError(f"{problems}", "fix the command line")


def _pod(settings: Settings, service_account: str) -> dict[str, Any]:
    """Return what driver and executors have in common: no rights beyond the image's user."""
    return {
        "serviceAccount": service_account,
        "env": [{"name": "RUNTIME_ENV", "value": settings.runtime}],
        "securityContext": {
            "runAsUser": USER,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _restarts(endless: bool) -> dict[str, Any]:
    """Return when the job starts again; it then resumes from its checkpoint."""
    if endless:
        return {"type": "Always", "onFailureRetryInterval": 30}
    return {"type": "OnFailure", "onFailureRetries": 5, "onFailureRetryInterval": 30}


def _class_path(settings: Settings) -> dict[str, str]:
    """Return the settings that put the image's jars before Spark's own, in all processes."""
    lock = read_lock(settings.project / "jars" / "jars.lock")
    groups = [*jar_groups(settings), "s3"]
    jars = [f"{LAB}/jars/{group}/{jar.file}" for group in groups for jar in lock[group]]
    return {
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.executor.extraClassPath": ":".join(jars),
        "spark.executorEnv.HUDI_CONF_DIR": f"{LAB}/conf",
        # Web identity, as Kubernetes gives it to a service account, is in this chain.
        CREDENTIALS: read_options(settings.conf_file("spark-defaults.conf"))[CREDENTIALS],
    }
