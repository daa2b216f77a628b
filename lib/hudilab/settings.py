"""Read `application_properties.json` and the environment into a frozen settings object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic_core import PydanticCustomError

from hudilab.errors import ConfigError
from hudilab.groups import (
    DEFAULT_TABLE,
    FILE,
    NO_OWNER,
    PIPELINES,
    TABLE_GROUP,
    Group,
    Owner,
    TableGroup,
    no_credentials,
)
from hudilab.paths import TableLocation, locate
from hudilab.settings_file import Groups, Shape, read_groups, read_options, validated

Runtime = Literal["LOCAL", "DOCKER", "AWS"]
_RUNTIMES: dict[str, Runtime] = {name: name for name in get_args(Runtime)}
_BOOLEANS = dict.fromkeys(("true", "1", "yes"), True) | dict.fromkeys(("false", "0", "no"), False)


@dataclass(frozen=True)
class Settings:
    """The lab's settings for one runtime; attributes of type `Path` are absolute.

    Attributes:
        warehouse_path: The value in the file, or HUDILAB_WAREHOUSE.
        source: The file to edit: the runtime's own if it exists, else the base file.
        groups: The groups of the files; see `group`.
        origins: The files by (group, key); see `origin`.
        notice: A line about groups and keys without effect in this runtime, or empty.
    """

    runtime: Runtime
    is_local: bool
    warehouse_path: str
    database_name: str
    table_name: str
    aws_region: str
    home: Path
    conf_dir: Path
    project: Path
    source: Path
    groups: Mapping[str, Group | Mapping[str, Any]] = field(default_factory=dict)
    origins: Mapping[tuple[str, str], Path] = field(default_factory=dict, compare=False, repr=False)
    notice: str = ""

    def group(self, name: str, model: type[Shape]) -> Shape | None:
        """Return a group, or None if no file has it.

        Raises:
            ConfigError: The group's keys do not fit the model.
        """
        group = self.groups.get(name)
        if group is None or isinstance(group, model):
            return group
        keys = group.model_dump(by_alias=True) if isinstance(group, Group) else group
        valid, problems = validated(name, keys, model)
        if problems or not isinstance(valid, model):
            file = self.origin(name, problems[0][0] if problems else "")
            texts = "; ".join(text for _, text in problems)
            raise ConfigError(f"{file}: {texts}", "fix the file")
        return valid

    def origin(self, group: str, key: str) -> Path:
        """Return the file with a group's key, or the file to add the key to."""
        of_group = self.origins.get((group, ""), self.source)
        return self.origins.get((group, key), of_group)

    def locate(self, table: str = "", database: str = "", run_id: str = "") -> TableLocation:
        """Return a table's location, by default the configured table's; see `paths.locate`."""
        return locate(
            self.warehouse_path,
            database or self.database_name,
            table or self.table_name,
            is_local=self.is_local,
            home=self.home,
            run_id=run_id,
        )

    def conf_file(self, name: str, *, of_runtime: bool = False) -> Path:
        """Return a file of conf/ or of the runtime, or the project's file if the user has none.

        The file need not exist. For application_properties.json see `load_settings`.
        """
        name = f"{self.runtime.lower()}/{name}" if of_runtime else name
        own = self.conf_dir / name
        return own if own.is_file() else self.project / "conf" / name

    @property
    def spark_defaults(self) -> Path:
        """The file with this runtime's Spark settings, which need not exist."""
        return self.conf_file("spark-defaults.conf", of_runtime=True)

    @property
    def on_cluster(self) -> bool:
        """Whether the runtime's Spark settings name a standalone cluster, spark://host:port."""
        file = self.spark_defaults
        return file.is_file() and read_options(file).get("spark.master", "").startswith("spark://")


def load_settings(
    runtime: str = "",
    env: Mapping[str, str] | None = None,
    *,
    owner: Owner = NO_OWNER,
    file: Path | None = None,
) -> Settings:
    """Load the settings for `runtime` (else RUNTIME_ENV, else LOCAL) from `env` (else os.environ).

    The keys in `<conf>/<runtime in lower case>/application_properties.json`, if it exists, override
    those in the base file. Both are in HUDILAB_CONF; the project's files replace other missing
    files, see `Settings.conf_file`.

    Args:
        owner: The owner of further groups to check. Each `pipelines/NAME.json` in the same folder
            contains the keys of such a group.
        file: A further file like `pipelines/NAME.json`, in any folder.

    Raises:
        ConfigError: lists every problem of the environment and the files.
    """
    env = os.environ if env is None else env
    project = project_root(env)
    problems: list[str] = []  # raised as one error
    given = _Environment(env, problems)
    warehouse = given.warehouse()
    chosen, is_local = given.runtime(runtime)
    if env.get("IS_LOCAL", "") == "" and _on_s3(warehouse):
        is_local = False
    home, _ = given.directory("HUDILAB_HOME", project / ".lab")
    conf, usable = given.directory("HUDILAB_CONF", project / "conf")
    folders = [conf, conf / chosen.lower()]
    files = [folder / FILE for folder in folders]
    files = [file for file in files if _is_there(file)] or files[:1]
    own_files: list[Path] = []
    if owner.prefix:
        own_files += [path for folder in folders for path in _json_files(folder / PIPELINES)]
    if file is not None and file.resolve() not in [path.resolve() for path in own_files]:
        problems += [
            f"{file} has the name of {path}; rename it, or run that one: {path.stem}"
            for path in own_files
            if path.stem == file.stem and _is_there(file)
        ]
        own_files.append(file)
    read = read_groups(files, project, problems, owner, own_files) if usable else Groups({}, {})
    if problems:
        raise ConfigError("; ".join(problems))
    groups = dict(read.groups)
    notices = [f"not used: {', '.join(read.unused)}"] if read.unused else []
    table = groups.pop(TABLE_GROUP, None)
    if not isinstance(table, TableGroup):
        table = TableGroup.model_validate(DEFAULT_TABLE)
        notices.append(f"no group {TABLE_GROUP}: tables go to database lab")
    names = " and ".join(str(path) for path in files)
    return Settings(
        runtime=chosen,
        is_local=is_local,
        warehouse_path=warehouse or table.warehouse_path,
        database_name=table.database_name,
        table_name=table.table_name,
        aws_region=table.aws_region,
        home=home,
        conf_dir=conf,
        project=project,
        source=files[-1],
        groups=groups,
        origins=read.origins,
        notice=f"{names}: {'; '.join(notices)}" if notices else "",
    )


def project_root(env: Mapping[str, str] | None = None) -> Path:
    """Return the checkout of this installation, else the parent of HUDILAB_CONF.

    Raises:
        ConfigError: the package is not in a checkout and HUDILAB_CONF is not set.
    """
    root = Path(__file__).resolve().parents[2]
    if (root / "pyproject.toml").is_file():
        return root
    if conf := (os.environ if env is None else env).get("HUDILAB_CONF"):
        return Path(conf).parent
    raise ConfigError(
        "hudilab is installed without its checkout, which contains conf/ and jars/jars.lock",
        "clone the repository, and run: export HUDILAB_CONF=/path/to/checkout/conf",
    )


class _Environment:
    """The environment variables that override settings; it collects their problems."""

    def __init__(self, env: Mapping[str, str], problems: list[str]) -> None:
        self._env, self._problems = env, problems

    def warehouse(self) -> str:
        """Return HUDILAB_WAREHOUSE, which overrides warehouse.path; empty if unset or refused."""
        name, path = "HUDILAB_WAREHOUSE", self._env.get("HUDILAB_WAREHOUSE", "").strip()
        try:
            no_credentials(path)
        except PydanticCustomError as error:
            self._problems.append(f"{name} {error.message()}; remove them from it")
            return ""
        if path and not (_on_s3(path) or Path(path).is_absolute()):
            remedy = "set it to s3://<bucket>/<prefix> or an absolute path, or unset it"
            self._problems.append(f"{name}={path!r} is not a warehouse; {remedy}")
        elif _on_s3(path) and _BOOLEANS.get(self._env.get("IS_LOCAL", "").strip().lower()):
            remedy = "unset IS_LOCAL, or set it to false"
            self._problems.append(f"IS_LOCAL contradicts {name}={path!r}; {remedy}")
        return path

    def runtime(self, argument: str) -> tuple[Runtime, bool]:
        """Return the argument, else RUNTIME_ENV; IS_LOCAL must not contradict it."""
        origin = "parameter runtime" if argument.strip() else "RUNTIME_ENV"
        requested = argument.strip() or self._env.get("RUNTIME_ENV", "").strip()
        runtime = _RUNTIMES.get(requested.upper() or "LOCAL")
        if runtime is None:
            remedy = f"set it to one of {', '.join(_RUNTIMES)}, or leave it empty"
            self._problems.append(f"{origin}={requested!r} is not a runtime; {remedy}")
        word = self._env.get("IS_LOCAL", "")
        stated = _BOOLEANS.get(word.strip().lower())
        if word and stated is None:
            remedy = "set it to true or false, or unset it"
            self._problems.append(f"IS_LOCAL={word!r} is not a boolean; {remedy}")
        follows = runtime in (None, "LOCAL")
        if runtime and requested and stated not in (None, follows):
            remedy = f"unset IS_LOCAL, or set it to {str(follows).lower()}"
            self._problems.append(f"IS_LOCAL={word!r} contradicts {origin}={requested!r}; {remedy}")
        return runtime or "LOCAL", follows if stated is None else stated

    def directory(self, name: str, default: Path) -> tuple[Path, bool]:
        """Return a variable's directory, else `default`, and whether it is usable."""
        if not self._env.get(name):
            return default, True
        path = Path(self._env[name])
        # A kernel and the command that starts it may have different working directories.
        if not path.is_absolute():
            problem = "is a relative path; use an absolute path"
        elif not path.is_dir() if _is_there(path) else name == "HUDILAB_CONF":
            problem = "is not a directory; set it to a directory, or unset it"
        else:
            return path, True
        self._problems.append(f"{name}={str(path)!r} {problem}")
        return path, False


def _on_s3(warehouse: str) -> bool:
    return warehouse.startswith(("s3://", "s3a://", "s3n://"))


def _json_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _is_there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises an error without access
