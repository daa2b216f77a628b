"""Read `application_properties.json` and its runtime's file into one set of groups; find faults."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from hudilab.errors import ConfigError
from hudilab.files import read_properties
from hudilab.groups import CATALOG, TABLE_GROUP, Entry, Group, Owner, TableGroup, keys_of

_ENTRY = TypeAdapter(Entry)
_OTHER = TypeAdapter(dict[str, str], config=ConfigDict(strict=True))
Shape = TypeVar("Shape", bound=Group)
_WANTED = {"string_type": "a string", "dict_type": "an object", "model_type": "an object"}


@dataclass(frozen=True)
class Groups:
    """The groups of all files, merged, and the file that each (group, key) was read from.

    Attributes:
        groups: A model of each group that has an owner, the keys of any other.
        origins: For a file that holds one group, also (group, "").
        unused: Groups and keys without effect in the lab, each with what replaces it.
    """

    groups: Mapping[str, Group | Mapping[str, Any]]
    origins: Mapping[tuple[str, str], Path]
    unused: Sequence[str] = ()


def read_options(file: Path) -> dict[str, str]:
    """Read a file of Spark's or Hudi's settings, as Spark does: Java's form, values stripped.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot read {file} ({error.strerror})", "restore it, or make it readable"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file} is not valid UTF-8 (byte {error.start})", "save it as UTF-8"
        ) from None
    return {key: value.strip() for key, value in read_properties(text).items()}


def parse(text: str) -> Any:
    """Return the content of a settings file, as JSON; a line that begins with // is a comment.

    Raises:
        ValueError, RecursionError: it holds no JSON.
    """
    # Published examples begin with the file's name in such a line.
    return json.loads(re.sub(r"(?m)^[ \t]*//.*$", "", text), object_pairs_hook=_Object)


def read_groups(
    files: Sequence[Path],
    project: Path,
    problems: list[str],
    owner: Owner,
    own_files: Sequence[Path] = (),
) -> Groups:
    """Return the groups of the files, each file's keys over those of the files before it.

    `own_files` hold the keys of one group each, whose name is the file's, after the owner's prefix.
    What is wrong with a file is added to `problems` as one text with the remedy, in which the file
    is named relative to `project` if it is in there.
    """
    read = [_File.read(path, project) for path in files]
    names = {path: owner.prefix + path.stem for path in own_files}
    others = [_File.read(path, project, group) for path, group in names.items()]
    problems += _in_both(read, others)
    read += others
    merged = _Merged(owner)
    for file in read:
        merged.add(file)
    # Of keys that are missing.
    merged.origins |= {(group, ""): path for path, group in names.items()}
    groups, faults = merged.validate()
    for file in read:
        if file.unreadable:
            problems.append(f"{file.label} {file.unreadable}")
        elif texts := dict.fromkeys(merged.faults_of(file, faults)):
            problems.append(f"{file.label}: {'; '.join(texts)}; fix the file")
    if not any(file.unreadable for file in read):
        _check_table(read[: len(files)], problems, owner)
    return Groups(groups, merged.origins, merged.unused(groups))


class _Object(dict[str, Any]):
    """A JSON object that records duplicate keys (the parser silently keeps the last one)."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]


@dataclass(frozen=True)
class _File:
    """A settings file: the entries of its list, or why they cannot be read."""

    path: Path
    label: str
    entries: list[Any]
    unreadable: str

    @classmethod
    def read(cls, path: Path, project: Path, group: str = "") -> _File:
        """Read a file with a list of groups, or with the keys of one `group`."""
        label = path.relative_to(project) if path.is_relative_to(project) else path
        return cls(path, str(label), *_parse(path, group))

    def names(self) -> Counter[str]:
        """Return the groups of this file, and how often each appears."""
        return Counter(name for entry in self.entries if (name := _name_and_properties(entry)[0]))


def _parse(source: Path, group: str = "") -> tuple[list[Any], str]:
    """Return the file's list, or why there is none; never quote the file: it may hold secrets."""
    content = f"the keys of a {group.partition('.')[0]}" if group else f"group {TABLE_GROUP!r}"
    try:
        groups = parse(source.read_text("utf-8-sig"))
    except FileNotFoundError:
        where = "" if group else ", or name another folder in HUDILAB_CONF"
        return [], f"does not exist; create it with {content}{where}"
    except OSError as error:
        return [], f"cannot be read ({error.strerror}); make it a readable file"
    except json.JSONDecodeError as error:
        location = f"line {error.lineno} column {error.colno}"
        return [], f"is not valid JSON ({error.msg}, {location}); fix the syntax"
    except UnicodeDecodeError as error:
        return [], f"is not valid UTF-8 (byte {error.start}); save it as UTF-8"
    except (RecursionError, ValueError):
        shape = content if group else "a plain list of groups"
        return [], f"is nested too deeply or contains too long a number; write {shape}"
    if group:
        if isinstance(groups, dict) and "PropertyMap" not in groups:
            return [{"PropertyGroupId": group, "PropertyMap": groups}], ""
        what = "a group" if isinstance(groups, dict) else _kind(groups)
        remedy = 'write what a PropertyMap holds: {"source.format": "csv", ...}'
        return [], f"contains {what}, not {content}; {remedy}"
    if isinstance(groups, list):
        return groups, ""
    remedy = 'write [{"PropertyGroupId": "HudiTable0", "PropertyMap": {...}}]'
    return [], f"contains {_kind(groups)}, not a list of groups; {remedy}"


def _in_both(files: Sequence[_File], own: Sequence[_File]) -> Iterable[str]:
    """Yield a problem for each group that also has its own file."""
    for file in own:
        for name in file.names():
            for other in files:
                if name in other.names():
                    yield (
                        f"{other.label}: group {name!r} is also the file {file.label}; keep one "
                        "of them"
                    )


def _name_and_properties(entry: Any) -> tuple[str, Any]:
    group = entry if isinstance(entry, dict) else {}
    name = group.get("PropertyGroupId")
    return name if isinstance(name, str) else "", group.get("PropertyMap")


# What is wrong with the merged keys of each group, each text with the file of its key.
_Faults = dict[str, list[tuple[Path, str]]]


@dataclass
class _Merged:
    """The files' groups merged: each key's value and file, and the first file of each group."""

    owner: Owner
    properties: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[tuple[str, str], Path] = field(default_factory=dict)
    first: dict[str, Path] = field(default_factory=dict)

    def add(self, file: _File) -> None:
        """Merge the entries that have the shape of a group; `_faults` reports the others."""
        for name, properties in map(_name_and_properties, file.entries):
            if name and isinstance(properties, dict):
                self.first.setdefault(name, file.path)
                self.properties[name] = self.properties.get(name, {}) | properties
                self.origins |= {(name, key): file.path for key in properties}

    def model(self, group: str) -> type[Group] | None:
        """Return the model of a group; None if it has no owner."""
        if group == TABLE_GROUP:
            return TableGroup
        return self.owner.model(group, self.properties[group])

    def validate(self) -> tuple[dict[str, Group | Mapping[str, Any]], _Faults]:
        """Return the groups that are valid, and the faults of those that are not."""
        groups: dict[str, Group | Mapping[str, Any]] = {}
        faults: _Faults = {}
        for name, properties in self.properties.items():
            if (model := self.model(name)) is None:
                groups[name] = properties
                continue
            groups[name], found = validated(name, properties, model)
            for key, text in found:
                file = self.origins.get((name, key), self.first[name])
                faults.setdefault(name, []).append((file, text))
        return groups, faults

    def faults_of(self, file: _File, faults: _Faults) -> Iterable[str]:
        """Yield what is wrong with a file; of a group that several share, only its own keys."""
        for number, entry in enumerate(file.entries, 1):
            name, properties = _name_and_properties(entry)
            where = f"group {name!r}" if name else f"entry {number}"
            yield from _check(_ENTRY, entry, where, keys_of(Entry))
            if near := self._meant(name):
                yield f"{where} is unknown (did you mean {near!r}?)"
            if not isinstance(properties, dict):
                continue
            if name in self.properties and self.model(name):
                yield from _twice(properties, where)
                yield from (text for path, text in faults.get(name, ()) if path == file.path)
            else:
                yield from _check(_OTHER, properties, where, [])
        times = file.names().items()
        yield from (f"group {name!r} appears {n} times" for name, n in times if n > 1)

    def unused(self, groups: Mapping[str, Group | Mapping[str, Any]]) -> list[str]:
        """Return the names of what has no effect here, each with what replaces it."""
        texts = []
        table = groups.get(TABLE_GROUP)
        if isinstance(table, TableGroup) and table.catalog_name != CATALOG:
            texts.append(f"catalog.name (SQL finds the tables in {CATALOG})")
        for name, properties in self.properties.items() if self.owner.names else ():
            if model := self.model(name):
                keys = [key for key in properties if key in model.unused]
                texts += [f"{key} of {name} ({model.unused[key]})" for key in keys]
            elif name in self.owner.unused:
                texts.append(f"group {name} ({self.owner.unused[name]})")
            else:
                texts.append(f"group {name if name.isprintable() else repr(name)}")
        return texts

    def _meant(self, group: str) -> str:
        """Return the group that an unknown one resembles; empty if none.

        A further number is no mistake: Flink applications have consumer.config.1, and so on.
        """
        known, prefix = (TABLE_GROUP, *self.owner.names), self.owner.prefix
        if group in known or (prefix and group.startswith(prefix)):
            return ""
        stems = (group.removeprefix(name.rstrip("0123456789")) for name in known)
        if any(re.fullmatch(r"\d+", stem) for stem in stems):
            return ""
        head, dot, name = group.partition(".")
        if dot and prefix and get_close_matches(f"{head.lower()}.", [prefix], 1, 0.8):
            return f"{prefix}{name}"
        lower = {name.lower(): name for name in known}
        return "".join(lower[near] for near in get_close_matches(group.lower(), lower, 1, 0.85))


def validated(
    group: str, properties: Mapping[str, Any], model: type[Shape]
) -> tuple[Shape | Mapping[str, Any], list[tuple[str, str]]]:
    """Return a group as its model, and what is wrong with which of its keys, if anything is."""
    where = f"group {group!r}"
    own = {key: value for key, value in properties.items() if key not in model.unused}
    try:
        made = model.model_validate(own)
    except ValidationError as error:
        return properties, [
            (str(detail["loc"][-1]), _complaint(where, detail, keys_of(model)))
            for detail in error.errors()
        ]
    return made, [(key, f"{where}: key {key!r}: {text}") for key, text in made.problems()]


def _check_table(files: Sequence[_File], problems: list[str], owner: Owner) -> None:
    """Add a problem if no file has the table's group, and other groups cannot do without it."""
    names = dict.fromkeys(name for file in files for name in file.names())
    others = owner.without_table if owner.names else tuple(names)
    if TABLE_GROUP in names or not names.keys().isdisjoint(others):
        return
    shown = ", ".join(name if name.isprintable() else repr(name) for name in names)
    listing = f"groups found: {shown or 'none'}"
    remedy = f"add it with the keys {', '.join(keys_of(TableGroup))}"
    labels = " or ".join(file.label for file in files)
    problems.append(f"no group {TABLE_GROUP!r} in {labels}; {listing}; {remedy}")


def _check(shape: TypeAdapter[Any], data: object, where: str, keys: list[str]) -> list[str]:
    """Return what is wrong with `data`, with types and keys but no values: they may be secrets."""
    problems = _twice(data, where)
    try:
        shape.validate_python(data)
    except ValidationError as error:
        problems += [_complaint(where, detail, keys) for detail in error.errors()]
    return problems


def _twice(data: object, where: str) -> list[str]:
    return [f"{where} has key {key!r} twice" for key in getattr(data, "twice", ())]


def _kind(value: object) -> str:
    kinds = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        type(None): "null",
    }
    return next((kinds[kind] for kind in type(value).__mro__ if kind in kinds), "a number")


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
