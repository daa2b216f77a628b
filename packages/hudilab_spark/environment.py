"""Which variables of the shell a process of the lab keeps, and which it ignores.

A session, a kernel and a server then start the same way from every shell. Whatever spark-submit or
a managed Spark (RUNTIME_ENV=AWS) has set is the platform's, and stays.
"""

from __future__ import annotations

import locale
import os
import pwd
import sys
from collections.abc import Mapping, MutableMapping
from fnmatch import fnmatchcase
from pathlib import Path

from hudilab.errors import ConfigError, PathError

# Options for Java that are meant for the lab.
JAVA_OPTIONS = "HUDILAB_JAVA_OPTIONS"

# Names and patterns of what could change a result or break a start, and how. docs/settings.md
# lists what a process of the lab takes over.
DROPPED = {
    "PYSPARK_*": "settings and packages of another Spark, or workers with another Python",
    "SPARK_*": "home, settings, folders and addresses of another Spark; a Spark elsewhere",
    "HADOOP_*": "the configuration of a cluster: other file systems, another user",
    "YARN_*": "the configuration of a cluster",
    "HIVE_*": "the configuration of another metastore",
    "HUDI_*": "the defaults of another Hudi",
    "CLASSPATH": "other jars",
    "_JAVA_OPTIONS": "options that contradict the lab's, or that this Java doesn't know",
    "JAVA_TOOL_OPTIONS": "the same; and a locale, with which Hudi writes other file names",
    "JDK_JAVA_OPTIONS": "the same",
    "BASH_ENV": "a script that runs before Spark's own, and could set all of these again",
    "PYTHONOPTIMIZE": "Python would skip each assert, and with it a lesson's checks",
    "PYTHONHASHSEED": "a word's hash would differ between Python workers",
    "ARROW_PRE_0_15_IPC_FORMAT": "a format of Arrow that Spark 3.5 refuses",
}
# The cluster that a session is for.
_OURS = ("SPARK_MASTER_URL", "SPARK_MASTER_WEBUI_PORT")
# With a cluster these name what its machines have, and how they reach this one.
_OF_A_CLUSTER = ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_PUBLIC_DNS")


def dropped(env: Mapping[str, str], runtime: str = "LOCAL") -> list[str]:
    """Return the variables of `env` that a process of the lab must not see, sorted."""
    if runtime.upper() == "AWS" or "PYSPARK_GATEWAY_PORT" in env:
        return []
    kept = _OURS if runtime.upper() == "LOCAL" else (*_OURS, *_OF_A_CLUSTER)
    return sorted(
        name
        for name in env
        if name not in kept and any(fnmatchcase(name, pattern) for pattern in DROPPED)
    )


def for_java(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a Java that the lab starts by itself: a server, or a tool."""
    env = os.environ if env is None else env
    gone = dropped({name: text for name, text in env.items() if name != "PYSPARK_GATEWAY_PORT"})
    return {name: text for name, text in env.items() if name not in gone} | file_names()


def file_names() -> dict[str, str]:
    """Return the variable with which Java can read and write any file name.

    It derives their encoding from the locale. LC_ALL=C is ASCII, and so is a locale that isn't
    installed here, as over ssh.
    """
    ascii_only = locale.getencoding().lower() not in ("utf-8", "utf8")
    return {"LC_ALL": "C.UTF-8"} if sys.platform == "linux" and ascii_only else {}


def ignored(env: Mapping[str, str], runtime: str = "LOCAL") -> ConfigError | None:
    """Return a notice that names the ignored variables; None if that changes nothing."""
    if env.get("HUDILAB_JAVA"):  # a session set them, in this process or in the one that started it
        return None
    names = [name for name in dropped(env, runtime) if env[name] and not _is_ours(name, env[name])]
    if not names:
        return None
    return ConfigError(
        f"ignored {', '.join(names)} of this shell, so that results are the same everywhere",
        f"unset {'it' if len(names) == 1 else 'them'}, or set what you need in the folder that "
        f"HUDILAB_CONF names (Spark) and in {JAVA_OPTIONS} (Java)",
    )


def take_over(
    runtime: str = "LOCAL", env: MutableMapping[str, str] = os.environ, *, quiet: bool = False
) -> None:
    """Remove what the lab ignores from this process's environment, and report it on stderr."""
    if (notice := ignored(env, runtime)) and not quiet:
        print(f"hudilab: {notice}", file=sys.stderr, flush=True)
    for name in dropped(env, runtime):
        del env[name]


def take_over_home(
    home: Path, env: MutableMapping[str, str] = os.environ, account: str | None = None
) -> None:
    """Give this process a HOME in the lab's home if it has none to write to, and report it.

    Jupyter, IPython and Matplotlib keep files there, and end with a traceback if they can't.

    Args:
        home: The lab's home.
        account: The folder of this account in /etc/passwd, which counts if HOME isn't set.

    Raises:
        PathError: neither HOME nor the lab's home can be written.
    """
    if "HOME" not in env and account is None:
        account = _folder_of_account()
    given = env.get("HOME", account or "")
    # Path.is_dir raises an error for a folder below one that is closed.
    is_folder = given.startswith("/") and os.path.isdir(given)  # noqa: PTH112
    if is_folder and os.access(given, os.W_OK | os.X_OK):
        return
    from hudilab.files import private_folder  # here: the image's layer of jars needs no more files

    own = home / "account"
    try:
        private_folder(own)
    except OSError as error:
        raise PathError(
            f"HOME={given!r} is not a writable folder, and {own} cannot be created instead "
            f"({error.strerror})",
            "set HOME or HUDILAB_HOME to a folder of your own",
        ) from None
    env["HOME"] = str(own)
    print(
        f"hudilab: HOME={given!r} is not a writable folder, so programs keep their own files in "
        f"{own}; set HOME to a folder of your own",
        file=sys.stderr,
        flush=True,
    )


def _folder_of_account() -> str:
    """Return this account's folder in /etc/passwd; empty for an account without a name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def _is_ours(name: str, value: str) -> bool:
    """Return whether a variable has the value that the lab gives it, as the lab's image does."""
    if name == "PYSPARK_PYTHON":
        return Path(value).parent == Path(sys.executable).parent
    # Not asked of the module: pyspark may not be installed, or not be imported yet.
    return name == "SPARK_HOME" and Path(value).parent in map(Path, sys.path)
