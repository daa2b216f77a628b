"""Read `application_properties.json` and the environment into one frozen settings object."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from hudilab.errors import ConfigError

__all__ = [
    "RUN_GROUP",
    "Consumer",
    "Producer",
    "RunOptions",
    "Runtime",
    "Settings",
    "load_settings",
    "project_root",
    "read_options",
    "run_options",
]

Runtime = Literal["LOCAL", "DOCKER", "AWS"]
_RUNTIMES: dict[str, Runtime] = {name: name for name in get_args(Runtime)}
_BOOLEANS = {
    "true": True,
    "1": True,
    "yes": True,
    "false": False,
    "0": False,
    "no": False,
}
_FILE = "application_properties.json"
_GROUP = "HudiTable0"
RUN_GROUP = "spark.run.options"
_WANTED = {"string_type": "a string", "dict_type": "an object", "model_type": "an object"}


@dataclass(frozen=True)
class Settings:
    """The lab's settings for one runtime; attributes of type `Path` are absolute.

    Attributes:
        warehouse_path: As written in the file, or HUDILAB_WAREHOUSE.
        source: The file to edit: the runtime's own if it exists, else the base file.
        consumer: Group consumer.config.0, if present; BOOTSTRAP_SERVERS overrides its servers.
        producer: Group producer.config.0, if present; BOOTSTRAP_SERVERS overrides its servers.
        run: Group spark.run.options, if present.
        origins: The file that each (group, key) was read from; see `origin`.
    """

    runtime: Runtime
    is_local: bool
    catalog_name: str
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
    origins: Mapping[tuple[str, str], Path] = field(default_factory=dict, compare=False, repr=False)

    def origin(self, group: str, key: str) -> Path:
        """Return the file that a group's key was read from; `source` if no file has the key."""
        return self.origins.get((group, key), self.source)

    @property
    def on_cluster(self) -> bool:
        """Whether the runtime's Spark settings name a standalone cluster, spark://host:port."""
        file = self.conf_dir / self.runtime.lower() / "spark-defaults.conf"
        return file.is_file() and read_options(file).get("spark.master", "").startswith("spark://")

    def __post_init__(self) -> None:
        """Pass the home on to the Kafka groups: the local broker's password is stored there."""
        for name in ("consumer", "producer"):
            if (group := getattr(self, name)) is not None:
                object.__setattr__(self, name, group.at(self.home))


def load_settings(runtime: str = "", env: Mapping[str, str] | None = None) -> Settings:
    """Load the settings for `runtime` (else RUNTIME_ENV, else LOCAL) from `env` (else os.environ).

    If `<conf>/<runtime in lower case>/application_properties.json` exists, its keys are added to
    the base file's groups and override theirs.

    Raises:
        ConfigError: lists every problem of the environment and the files at once.
    """
    env = os.environ if env is None else env
    project = project_root(env)
    problems: list[str] = []
    warehouse = _warehouse(env, problems)
    chosen, is_local = _runtime(runtime, env, problems)
    if env.get("IS_LOCAL", "") == "" and _on_s3(warehouse):
        is_local = False
    home = _directory("HUDILAB_HOME", project / ".lab", env, problems)
    conf = _directory("HUDILAB_CONF", project / "conf", env, problems)
    files = [conf / _FILE, conf / chosen.lower() / _FILE]
    files = [file for file in files if _is_there(file)] or files[:1]
    usable = not any(problem.startswith("HUDILAB_CONF") for problem in problems)
    groups, origins = _read_groups(files, project, problems) if usable else ({}, {})
    servers = _override(env, problems)
    if problems:
        raise ConfigError("; ".join(problems))
    table = groups.pop(_GROUP).model_dump() | ({"warehouse_path": warehouse} if warehouse else {})
    run = groups.pop(RUN_GROUP, None)
    others: dict[str, Any] = {"run": run} | {
        name.partition(".")[0]: group.model_copy(update=servers) for name, group in groups.items()
    }
    paths: dict[str, Any] = {"home": home, "conf_dir": conf, "project": project}
    paths |= {"source": files[-1], "origins": origins}
    return Settings(chosen, is_local, **table, **paths, **others)


def _override(env: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """Return BOOTSTRAP_SERVERS, which overrides the file, as a model update; empty if unset."""
    servers = env.get("BOOTSTRAP_SERVERS", "").strip()
    try:
        return {"bootstrap_servers": _servers(servers)} if servers else {}
    except PydanticCustomError as error:
        remedy = "fix it, or unset it to use the servers in the settings file"
        problems.append(f"BOOTSTRAP_SERVERS={servers!r} {error.message()}; {remedy}")
        return {}


def _on_s3(warehouse: str) -> bool:
    return warehouse.startswith(("s3://", "s3a://", "s3n://"))


def _warehouse(env: Mapping[str, str], problems: list[str]) -> str:
    """Return HUDILAB_WAREHOUSE, which overrides warehouse.path; empty if unset or refused."""
    name, path = "HUDILAB_WAREHOUSE", env.get("HUDILAB_WAREHOUSE", "").strip()
    try:
        _no_credentials(path)
    except PydanticCustomError as error:
        problems.append(f"{name} {error.message()}; remove them from it")
        return ""
    if path and not (_on_s3(path) or Path(path).is_absolute()):
        remedy = "set it to s3://<bucket>/<prefix> or an absolute path, or unset it"
        problems.append(f"{name}={path!r} is not a warehouse; {remedy}")
    elif _on_s3(path) and _BOOLEANS.get(env.get("IS_LOCAL", "").strip().lower()):
        problems.append(f"IS_LOCAL contradicts {name}={path!r}; unset IS_LOCAL, or set it to false")
    return path


def project_root(env: Mapping[str, str] | None = None) -> Path:
    """Return the checkout this package is installed from, else the parent of HUDILAB_CONF.

    Raises:
        ConfigError: the package is not in a checkout and HUDILAB_CONF is not set.
    """
    root = Path(__file__).resolve().parents[3]
    if (root / "pyproject.toml").is_file():
        return root
    if conf := (os.environ if env is None else env).get("HUDILAB_CONF"):
        return Path(conf).parent
    raise ConfigError(
        "hudilab is not installed from a checkout, so it has no conf directory; set HUDILAB_CONF "
        f"to the directory that contains {_FILE}"
    )


def read_options(file: Path) -> dict[str, str]:
    """Read a Spark or Hudi properties file: per line a key, spaces or `=` or `:`, and a value."""
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (re.split(r"\s*[=:\s]\s*", f"{line} ", maxsplit=1) for line in lines if line)
    return {key: value.strip() for key, value in pairs if not key.startswith(("#", "!"))}


def _runtime(argument: str, env: Mapping[str, str], problems: list[str]) -> tuple[Runtime, bool]:
    """Prefer the argument to RUNTIME_ENV; IS_LOCAL must not contradict the one used."""
    origin = "parameter runtime" if argument.strip() else "RUNTIME_ENV"
    asked = argument.strip() or env.get("RUNTIME_ENV", "").strip()
    runtime = _RUNTIMES.get(asked.upper() or "LOCAL")
    if runtime is None:
        remedy = f"set it to one of {', '.join(_RUNTIMES)}, or leave it empty"
        problems.append(f"{origin}={asked!r} is not a runtime; {remedy}")
    word = env.get("IS_LOCAL", "")
    stated = _BOOLEANS.get(word.strip().lower())
    if word and stated is None:
        remedy = "set it to true or false, or unset it"
        problems.append(f"IS_LOCAL={word!r} is not a boolean; {remedy}")
    follows = runtime in (None, "LOCAL")
    if runtime and asked and stated not in (None, follows):
        remedy = f"unset IS_LOCAL, or set it to {str(follows).lower()}"
        problems.append(f"IS_LOCAL={word!r} contradicts {origin}={asked!r}; {remedy}")
    return runtime or "LOCAL", follows if stated is None else stated


def _directory(name: str, default: Path, env: Mapping[str, str], problems: list[str]) -> Path:
    if not env.get(name):
        return default
    path = Path(env[name])
    # A kernel and the command that starts it may have different working directories.
    if not path.is_absolute():
        problems.append(f"{name}={str(path)!r} is a relative path; use an absolute path")
    elif not path.is_dir() if _is_there(path) else name == "HUDILAB_CONF":
        problems.append(
            f"{name}={str(path)!r} is not a directory; set it to a directory, or unset it"
        )
    return path


def _is_there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises where it may not look


def _not_padded(value: str) -> str:
    if value != value.strip():
        raise PydanticCustomError("padded", "has leading or trailing whitespace")
    return value


def _no_credentials(value: str) -> str:
    # No host or bucket contains ':' or '@'; a secret may contain '/', so '@' counts after one too.
    _, scheme, rest = value.partition("://")
    host = rest.split("/", 1)[0]
    named = "@" in rest and (":" in host or "@" in host)
    if named if scheme else re.match(r"(?!file:)[^/]+:[^/]+@", value):
        raise PydanticCustomError(
            "secret", "contains credentials, which belong in the AWS credential chain"
        )
    return value


_Text = Annotated[str, Field(min_length=1), AfterValidator(_not_padded)]
_Name = Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_Place = Annotated[_Text, AfterValidator(_no_credentials)]


def _catalog(value: str) -> str:
    # Spark sets a delegate on the session catalog only; in any other, Hudi's delegate is null.
    if value != "spark_catalog":
        raise PydanticCustomError(
            "catalog", "is not 'spark_catalog', the only catalog that Hudi's SQL supports"
        )
    return value


_Catalog = Annotated[_Name, AfterValidator(_catalog)]


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    catalog_name: _Catalog = Field(alias="catalog.name")
    warehouse_path: _Place = Field(alias="warehouse.path")
    database_name: _Name = Field(alias="database.name")
    table_name: _Name = Field(alias="table.name")
    aws_region: _Text = Field(alias="aws.region")


def _servers(value: str) -> str:
    for server in value.split(","):
        host, colon, port = server.rpartition(":")
        named = re.fullmatch(r"[A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\]", host)
        if not (colon and named and port.isdecimal() and 0 < int(port) < 65536):
            raise PydanticCustomError("servers", "is not host:port[,host:port...]")
    return value


_Servers = Annotated[_Text, AfterValidator(_servers)]


def _topic(value: str) -> str:
    if not re.fullmatch(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", value):
        raise PydanticCustomError(
            "topic", "is not a valid topic name (letters, digits, '.', '_', '-')"
        )
    return value


_Topic = Annotated[str, Field(min_length=1), AfterValidator(_topic)]


class _Client(BaseModel):
    """Settings of a Kafka client, with Kafka's own names and values; never a password."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    topic_name: _Topic = Field(alias="topic.name")
    bootstrap_servers: _Servers = Field(alias="bootstrap.servers")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL"] | None = Field(
        None, alias="security.protocol"
    )
    sasl_username: _Text | None = Field(None, alias="sasl.username")
    ssl_ca_location: _Text | None = Field(None, alias="ssl.ca.location")
    _home: Path | None = PrivateAttr(None)

    @property
    def home(self) -> Path | None:
        """The lab's home; None if the group is not part of a `Settings`."""
        return self._home

    def at(self, home: Path) -> Self:
        """Return a copy that knows its home."""
        copy = self.model_copy()
        copy._home = home
        return copy


class Consumer(_Client):
    """Group consumer.config.0: the topic to read; `table.name` is the SQL view of its rows."""

    table_name: _Name = Field("stocks_in", alias="table.name")
    startup_mode: Literal["earliest-offset", "latest-offset"] = Field(alias="startup.mode")


class Producer(_Client):
    """Group producer.config.0: the topic to write; `table.name` is the Hudi table.

    Unreadable messages go to `dead.letter.topic.name`.
    """

    table_name: _Name = Field(alias="table.name")
    dead_letter_topic_name: _Topic = Field("stocks-dead", alias="dead.letter.topic.name")


def _inside(value: str) -> str:
    if value.startswith(("/", "~")) or ".." in value.split("/") or ":" in value:
        raise PydanticCustomError("inside", "is not a path inside the bundle")
    return value


def _words(value: str) -> str:
    try:
        shlex.split(value)
    except ValueError as error:
        raise PydanticCustomError(
            "words", "is not a valid command line ({why})", {"why": str(error).rstrip(".").lower()}
        ) from None
    return value


_Inside = Annotated[_Text, AfterValidator(_inside)]


class RunOptions(BaseModel):
    """Group spark.run.options: which script of the bundle starts which job, with which jar.

    Attributes:
        python: Path of the script in the bundle.
        jarfile: Path of the jar in the bundle.
        job: A module of hudilab.jobs.
        arguments: The job's command line, quoted as in a shell.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    python: _Inside
    jarfile: _Inside
    job: _Name
    arguments: Annotated[str, AfterValidator(_words)] = ""


def run_options(settings: Settings, otherwise: str = "") -> RunOptions:
    """Return the settings' group spark.run.options.

    Args:
        otherwise: An alternative remedy, appended to the error message.

    Raises:
        ConfigError: the settings do not have the group.
    """
    if settings.run is None:
        raise ConfigError(
            f"group {RUN_GROUP!r} is missing from {settings.source}; "
            f"add it with the keys python, jarfile and job{otherwise}"
        )
    return settings.run


class _Group(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    name: str = Field(alias="PropertyGroupId", min_length=1)
    properties: dict[str, Any] = Field(alias="PropertyMap")


def _keys(shape: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in shape.model_fields.items()]


_KNOWN: dict[str, type[BaseModel]] = {
    _GROUP: _Table,
    "consumer.config.0": Consumer,
    "producer.config.0": Producer,
    RUN_GROUP: RunOptions,
}
_SHAPE = TypeAdapter(_Group)
_OTHER = TypeAdapter(dict[str, str], config=ConfigDict(strict=True))


class _Object(dict[str, Any]):
    """A JSON object that records duplicate keys (the parser silently keeps the last one)."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]


@dataclass
class _Merged:
    """The files' groups merged: each key's value and file, and the first file of each group."""

    properties: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[tuple[str, str], Path] = field(default_factory=dict)
    first: dict[str, Path] = field(default_factory=dict)

    def add(self, file: Path, entry: Any) -> None:
        """Merge an entry if it has the shape of a group; `_check_entry` reports what is wrong."""
        name, properties = _name_and_properties(entry)
        if name and isinstance(properties, dict):
            self.first.setdefault(name, file)
            self.properties[name] = self.properties.get(name, {}) | properties
            self.origins |= {(name, key): file for key in properties}


def _name_and_properties(entry: Any) -> tuple[str, Any]:
    group = entry if isinstance(entry, dict) else {}
    name = group.get("PropertyGroupId")
    return name if isinstance(name, str) else "", group.get("PropertyMap")


def _read_groups(
    files: list[Path], project: Path, problems: list[str]
) -> tuple[dict[str, BaseModel], dict[tuple[str, str], Path]]:
    """Return the known groups, merged, and each key's file; add one text per file to `problems`."""
    parsed = [(file, *_parse(file)) for file in files]
    labels = [str(f.relative_to(project) if f.is_relative_to(project) else f) for f in files]
    merged = _Merged()
    for file, entries, _ in parsed:
        for entry in entries:
            merged.add(file, entry)
    groups: dict[str, BaseModel] = {}
    names: dict[str, None] = {}
    for label, (file, entries, unreadable) in zip(labels, parsed, strict=True):
        found: list[str] = []
        for number, entry in enumerate(entries, 1):
            _check_entry(entry, f"entry {number}", file, merged, groups, found)
        here = Counter(name for entry in entries if (name := _name_and_properties(entry)[0]))
        found += [f"group {name!r} appears {n} times" for name, n in here.items() if n > 1]
        problems += [f"{label} {unreadable}"] if unreadable else []
        problems += [f"{label}: {'; '.join(dict.fromkeys(found))}; fix the file"] if found else []
        names |= dict.fromkeys(here)
    if _GROUP not in names and not any(unreadable for *_, unreadable in parsed):
        told = [name if name.isprintable() else repr(name) for name in names]
        there = f"groups found: {', '.join(told) or 'none'}"
        remedy = f"add it with the keys {', '.join(_keys(_Table))}"
        problems.append(f"no group {_GROUP!r} in {' or '.join(labels)}; {there}; {remedy}")
    return groups, merged.origins


def _check_entry(
    entry: Any,
    where: str,
    file: Path,
    merged: _Merged,
    groups: dict[str, BaseModel],
    found: list[str],
) -> None:
    """Check an entry; for a group shared by several files, report only this file's keys."""
    name, properties = _name_and_properties(entry)
    where = f"group {name!r}" if name else where
    _check(_SHAPE, entry, where, _keys(_Group), found)
    if not isinstance(properties, dict):
        return
    shape = _KNOWN.get(name)
    if shape is None:
        _check(_OTHER, properties, where, [], found)
        return
    found += _twice(properties, where)
    try:
        groups[name] = shape.model_validate(merged.properties[name])
    except ValidationError as error:
        for detail in error.errors():
            key = (name, str(detail["loc"][-1]))
            if merged.origins.get(key, merged.first[name]) == file:
                found.append(_complaint(where, detail, _keys(shape)))


def _parse(source: Path) -> tuple[list[Any], str]:
    """Return the file's list, or why there is none; never quote the file: it may hold secrets."""
    try:
        groups = json.loads(source.read_text("utf-8-sig"), object_pairs_hook=_Object)
    except FileNotFoundError:
        return [], f"does not exist; create it with group {_GROUP!r}, or set HUDILAB_CONF"
    except OSError as error:
        return [], f"cannot be read ({error.strerror}); make it a readable file"
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        return [], f"is not valid JSON ({error.msg}, {place}); fix the syntax"
    except UnicodeDecodeError as error:
        return [], f"is not valid UTF-8 (byte {error.start}); save it as UTF-8"
    except (RecursionError, ValueError):
        return (
            [],
            "is nested too deeply or contains too long a number; write a plain list of groups",
        )
    if isinstance(groups, list):
        return groups, ""
    remedy = 'write [{"PropertyGroupId": "HudiTable0", "PropertyMap": {...}}]'
    return [], f"contains {_kind(groups)}, not a list of groups; {remedy}"


def _kind(value: object) -> str:
    kinds = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        type(None): "null",
    }
    return next((kinds[kind] for kind in type(value).__mro__ if kind in kinds), "a number")


def _check(
    shape: TypeAdapter[Any], data: object, where: str, keys: list[str], found: list[str]
) -> None:
    """Add problems to `found`, naming types and keys but no values: they may be secrets."""
    found += _twice(data, where)
    try:
        shape.validate_python(data)
    except ValidationError as error:
        found += [_complaint(where, detail, keys) for detail in error.errors()]


def _twice(data: object, where: str) -> list[str]:
    return [f"{where} has key {key!r} twice" for key in getattr(data, "twice", ())]


def _complaint(where: str, detail: ErrorDetails, keys: list[str]) -> str:
    key, kind = str(detail["loc"][-1]) if detail["loc"] else "", detail["type"]
    subject = f"{where}: key {key!r}" if key else where
    if kind == "missing":
        return f"{where} has no key {key!r}"
    if kind == "extra_forbidden":
        lower = {known.lower(): known for known in keys}
        near = get_close_matches(key.lower(), lower, 1, 0.75)
        hint = "".join(f" (did you mean {lower[match]!r}?)" for match in near)
        return f"{where} has an unknown key {key!r}{hint}"
    if kind in _WANTED:
        return f"{subject} is {_kind(detail['input'])}, not {_WANTED[kind]}"
    if kind == "string_pattern_mismatch":
        return f"{subject} is not a valid name (letters, digits and _, not starting with a digit)"
    if kind == "literal_error":
        return f"{subject} must be {detail['ctx']['expected']}"
    return f"{subject} {'is empty' if kind == 'string_too_short' else detail['msg']}"
