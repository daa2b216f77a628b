"""Read `application_properties.json` and the environment into one frozen settings object."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic_core import PydanticCustomError

from hudilab.errors import ConfigError
from hudilab.groups import (
    DEFAULT_TABLE,
    FILE,
    KAFKA_GROUPS,
    PIPELINES,
    PREFIX,
    RUN_GROUP,
    TABLE_GROUP,
    Consumer,
    Hive,
    Pipeline,
    Producer,
    RunOptions,
    Table,
    Tables,
    TopicPipeline,
    no_credentials,
    servers,
)
from hudilab.paths import QUARANTINE, TableLocation, locate
from hudilab.settings_file import Groups, read_groups, read_options

Runtime = Literal["LOCAL", "DOCKER", "AWS"]
_RUNTIMES: dict[str, Runtime] = {name: name for name in get_args(Runtime)}
_BOOLEANS = dict.fromkeys(("true", "1", "yes"), True) | dict.fromkeys(("false", "0", "no"), False)


@dataclass(frozen=True)
class Settings:
    """The lab's settings for one runtime; attributes of type `Path` are absolute.

    Attributes:
        warehouse_path: As written in the file, or HUDILAB_WAREHOUSE.
        source: The file to edit: the runtime's own if it exists, else the base file.
        consumer, producer: Groups of Kafka, if present; BOOTSTRAP_SERVERS overrides their servers.
        run, metastore: Groups spark.run.options and metastore, if present.
        pipelines: Groups pipeline.NAME and files pipelines/NAME.json, by NAME.
        tables: The pipelines that run others in one query, with the names of those.
        origins: The file that each (group, key) was read from; see `origin`.
        notice: One line about groups and keys of the files that have no effect here, or empty.
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
    consumer: Consumer | None = None
    producer: Producer | None = None
    run: RunOptions | None = None
    metastore: Hive | None = None
    pipelines: Mapping[str, Pipeline] = field(default_factory=dict)
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origins: Mapping[tuple[str, str], Path] = field(default_factory=dict, compare=False, repr=False)
    notice: str = ""

    def origin(self, group: str, key: str) -> Path:
        """Return the file that a group's key was read from, or belongs in."""
        of_group = self.origins.get((group, ""), self.source)
        return self.origins.get((group, key), of_group)

    def locate(self, table: str = "", database: str = "", run_id: str = "") -> TableLocation:
        """Locate a table, the configured one by default; see `paths.locate`. Checks no disk."""
        return locate(
            self.warehouse_path,
            database or self.database_name,
            table or self.table_name,
            is_local=self.is_local,
            home=self.home,
            run_id=run_id,
        )

    def conf_file(self, name: str, *, of_runtime: bool = False) -> Path:
        """Return a file of conf/, or the runtime's own; the project's if the user has none.

        It need not exist. For application_properties.json see `load_settings`.
        """
        name = f"{self.runtime.lower()}/{name}" if of_runtime else name
        own = self.conf_dir / name
        return own if own.is_file() else self.project / "conf" / name

    @property
    def spark_defaults(self) -> Path:
        """The file with the Spark settings that this runtime adds; it need not exist."""
        return self.conf_file("spark-defaults.conf", of_runtime=True)

    @property
    def on_cluster(self) -> bool:
        """Whether the runtime's Spark settings name a standalone cluster, spark://host:port."""
        file = self.spark_defaults
        return file.is_file() and read_options(file).get("spark.master", "").startswith("spark://")


def load_settings(
    runtime: str = "", env: Mapping[str, str] | None = None, pipeline: Path | None = None
) -> Settings:
    """Load the settings for `runtime` (else RUNTIME_ENV, else LOCAL) from `env` (else os.environ).

    If `<conf>/<runtime in lower case>/application_properties.json` exists, its keys are added to
    the base file's groups and override theirs. Each `pipelines/NAME.json` beside these files holds
    the keys of a pipeline, as does the file `pipeline`, wherever it is. All are in HUDILAB_CONF;
    any other missing file is the project's: see `Settings.conf_file`.

    Raises:
        ConfigError: lists every problem of the environment and the files at once.
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
    own_files = [file for folder in folders for file in sorted(folder.glob(f"{PIPELINES}/*.json"))]
    if pipeline is not None and pipeline.resolve() not in [file.resolve() for file in own_files]:
        problems += [
            f"{pipeline} has the name of {file}; rename it, or run that one: {file.stem}"
            for file in own_files
            if file.stem == pipeline.stem and _is_there(pipeline)
        ]
        own_files.append(pipeline)
    groups = read_groups(files, project, problems, own_files) if usable else Groups({}, {})
    override = given.servers()
    if problems:
        raise ConfigError("; ".join(problems))
    models = {
        name: group.model_copy(update=override) if name in KAFKA_GROUPS else group
        for name, group in groups.models.items()
    }
    notices = [f"not used: {', '.join(groups.unused)}"] if groups.unused else []
    if TABLE_GROUP not in models:
        models[TABLE_GROUP] = Table.model_validate(DEFAULT_TABLE)
        notices.append(f"no group {TABLE_GROUP}: tables go to database lab")
    table = models.pop(TABLE_GROUP).model_dump(exclude={"catalog_name"})
    table |= {"warehouse_path": warehouse} if warehouse else {}
    own = {name: models.pop(name) for name in groups.models if name.startswith(PREFIX)}
    others: dict[str, Any] = {"run": models.pop(RUN_GROUP, None)}
    own = {name.removeprefix(PREFIX): group for name, group in own.items()}
    tables = {name: group.names for name, group in own.items() if isinstance(group, Tables)}
    others |= {"tables": tables}
    others["pipelines"] = {name: group for name, group in own.items() if name not in tables}
    others |= {name.partition(".")[0]: group for name, group in models.items()}
    paths: dict[str, Any] = {"home": home, "conf_dir": conf, "project": project}
    paths |= {"source": files[-1], "origins": groups.origins}
    read = " and ".join(str(file) for file in files)
    paths["notice"] = f"{read}: {'; '.join(notices)}" if notices else ""
    return Settings(chosen, is_local, **table, **paths, **others)


def load_pipeline(name: str) -> tuple[Settings, str]:
    """Return the settings with a pipeline, and its name; `name` may be its file, NAME.json.

    Raises:
        ConfigError: as `load_settings`.
    """
    if not name.endswith(".json"):
        return load_settings(), name
    file = Path(name).absolute()
    return load_settings(pipeline=file), file.stem


def find_group(settings: Settings, name: str) -> Pipeline:
    """Return the settings' pipeline NAME; raise ConfigError if there is none."""
    if name in settings.pipelines:
        return settings.pipelines[name]
    known = [*settings.pipelines, *settings.tables]
    near = get_close_matches(name, known, 1)
    raise ConfigError(
        f"there is no group {PREFIX + name!r} in {settings.source}, and no file "
        f"{settings.conf_dir / PIPELINES / name}.json (pipelines: {', '.join(known) or 'none'})"
        + "".join(f" (did you mean {name!r}?)" for name in near),
        "create that file with the keys source.format, source.path, table.name, record.key and "
        "ordering",
    )


def find_groups(settings: Settings, name: str) -> dict[str, Pipeline]:
    """Return the pipelines that NAME runs, by name: itself, or those that its key `tables` lists.

    Raises:
        ConfigError: There is no such pipeline, or one query cannot run them all.
    """
    if name not in settings.tables:
        return {name: find_group(settings, name)}
    groups = {own: find_group(settings, own) for own in settings.tables[name]}
    file = settings.origin(PREFIX + name, "tables")
    place = f"{file}: group {PREFIX + name!r}, key 'tables'"
    writers: dict[str, str] = {}
    for own, group in groups.items():
        if not isinstance(group, TopicPipeline):
            raise ConfigError(
                f"{place}: {own} reads {group.source}, but one query for several tables reads "
                "topics",
                f"leave it out, and run it by itself: hudilab stream {own}",
            )
        if (first := writers.setdefault(group.table_name, own)) != own:
            raise ConfigError(
                f"{place}: {first} and {own} both write table {group.table_name}",
                "give each pipeline its own table.name",
            )
    return groups


def checkpoint_of(settings: Settings, name: str, run_id: str = "") -> str:
    """Return the checkpoint of the query that runs a pipeline, or several."""
    if name in settings.tables:  # a name that no table's checkpoint has
        return settings.locate(name, run_id=run_id).checkpoint_of("tables")
    return settings.locate(find_group(settings, name).table_name, run_id=run_id).checkpoint


def place_of(settings: Settings, table: str, command: str, run_id: str = "") -> str:
    """Return the location of the table of a pipeline if `table` is its name, else `table`.

    NAME_quarantine is the quarantine of pipeline NAME, for the commands that may use one.

    Raises:
        ConfigError: The name is also a folder of a table, or is unknown; or `run_id` is given for a
            path.
    """
    folder = Path(table)
    group = settings.pipelines.get(table)
    of_quarantine = group is None and command in ("inspect", "tidy")
    if of_quarantine and table.endswith(QUARANTINE):
        group = settings.pipelines.get(table.removesuffix(QUARANTINE))
    if group is not None and (folder / ".hoodie").is_dir():
        raise ConfigError(
            f"{table!r} is a pipeline, and also a table's folder in {Path.cwd()}",
            f"name the folder as ./{table}, or run this in another folder: "
            f"hudilab {command} {table}",
        )
    if group is not None:
        location = settings.locate(group.table_name, run_id=run_id)
        return location.quarantine if of_quarantine else location.table
    is_name = re.fullmatch(r"[\w.-]+", table) and not _is_there(folder)
    if is_name or run_id:
        names = ", ".join(settings.pipelines) or "none"
        place = f" and no folder {folder.absolute()}" if is_name else ", so it has no --run-id"
        raise ConfigError(
            f"there is no pipeline {table!r}{place} (pipelines: {names})",
            f"name a pipeline or a table's folder: hudilab {command} TABLE",
        )
    return table


def find_table(table: str, command: str, run_id: str = "") -> tuple[Settings, str]:
    """Return the settings and the location of a table that is named by its pipeline, or its place.

    Args:
        table: The name of a pipeline, the path of its file, NAME.json, or what `place_of` accepts.

    Raises:
        ConfigError: As `place_of`, or the file describes no pipeline.
    """
    if not table.endswith(".json") or "://" in table or Path(table).is_dir():
        settings = load_settings()
        return settings, place_of(settings, table, command, run_id)
    settings, own = load_pipeline(table)
    return settings, settings.locate(find_group(settings, own).table_name, run_id=run_id).table


def project_root(env: Mapping[str, str] | None = None) -> Path:
    """Return the checkout this package is installed from, else the parent of HUDILAB_CONF.

    Raises:
        ConfigError: the package is not in a checkout and HUDILAB_CONF is not set.
    """
    root = Path(__file__).resolve().parents[2]
    if (root / "pyproject.toml").is_file():
        return root
    if conf := (os.environ if env is None else env).get("HUDILAB_CONF"):
        return Path(conf).parent
    raise ConfigError(
        "hudilab is not installed from a checkout, so it has no conf directory",
        f"set HUDILAB_CONF to the directory that contains {FILE}",
    )


def run_options(settings: Settings, otherwise: str = "") -> RunOptions:
    """Return the settings' group spark.run.options; `otherwise` is added to the error's remedy.

    Raises:
        ConfigError: the settings do not have the group.
    """
    if settings.run is None:
        raise ConfigError(
            f"group {RUN_GROUP!r} is missing from {settings.source}",
            f"add it with the keys python, jarfile and job{otherwise}",
        )
    return settings.run


class _Environment:
    """The environment variables that choose or override settings; collects what is wrong."""

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
        """Prefer the argument to RUNTIME_ENV; IS_LOCAL must not contradict the one used."""
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
        """Return the directory that a variable names, else `default`, and whether it is usable."""
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

    def servers(self) -> dict[str, str]:
        """Return BOOTSTRAP_SERVERS, which overrides the file, as a model update, if it is set."""
        named = self._env.get("BOOTSTRAP_SERVERS", "").strip()
        try:
            return {"bootstrap_servers": servers(named)} if named else {}
        except PydanticCustomError as error:
            remedy = "fix it, or unset it to use the servers in the settings file"
            self._problems.append(f"BOOTSTRAP_SERVERS={named!r} {error.message()}; {remedy}")
            return {}


def _on_s3(warehouse: str) -> bool:
    return warehouse.startswith(("s3://", "s3a://", "s3n://"))


def _is_there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises where it may not look
