"""Convert Avro with another schema exactly to rows of the group's schema, or refuse it.

Avro ignores logical types when it resolves the writer's and the reader's schema, and Spark assumes
the reader's: 12.3456 with four decimals would become 1234.56 in a field with two. Each message is
therefore decoded with the writer's types, then converted to the group's types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from py4j.java_gateway import get_field
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from hudilab_jobs.pipelines.text_values import SHOWN, decoded, literal, problem_of, quoted

READ = "_hudilab_read"  # an additional last field, which proves that Avro read the whole message
MARK = "complete"  # its value
IS_READ = f"{READ} <=> '{MARK}'"
_TAIL = bytes([2 * len(MARK)]) + MARK.encode()  # MARK in Avro's encoding
_FIELD = {"name": READ, "type": "string", "default": MARK}
# The largest whole number up to which a type represents every whole number.
_WHOLE: dict[type[T.DataType], int] = {T.FloatType: 2**24, T.DoubleType: 2**53}
DIGITS = 38  # of Spark's longest decimal
_INEXACT = {("INT", "FLOAT"), ("LONG", "FLOAT"), ("LONG", "DOUBLE"), ("BYTES", "STRING")}
# Logical types with the same meaning in different units, which Spark reads as the same type.
_MOMENTS = ("timestamp-", "local-timestamp-")


class Reading(NamedTuple):
    """How to decode the messages of a writer's schema.

    Attributes:
        schema: The reader's schema, with the writer's types where values must be converted.
        problem: The reason why no message can be read, or an empty string.
    """

    schema: dict[str, Any]
    problem: str = ""


class _DiffersError(Exception):
    """A field's types have different meanings; contains the problem."""


def read_avro(value: str, writer: str, schema: Mapping[str, Any]) -> Column:
    """Return Avro as a row of `schema` with the field `READ`, which isn't `MARK` after a failure.

    Leftover bytes are a failure, too, because another schema wrote the message.
    """
    options = {"avroSchema": json.dumps({**schema, "fields": [*schema["fields"], _FIELD]})}
    options |= {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}
    wrote = json.loads(writer)
    if isinstance(wrote, dict) and wrote.get("type") == "record":
        writer = json.dumps({**wrote, "fields": [*wrote["fields"], _FIELD]})
        value = f"concat({value}, X'{_TAIL.hex()}')"
    return from_avro(F.expr(value), writer, options)


def reading(spark: SparkSession, writer: str, reader: str) -> Reading:
    """Return how to decode messages of the schema `writer` into rows of the schema `reader`."""
    jvm: Any = spark._jvm
    avro = jvm.org.apache.avro
    wrote, wanted = (getattr(avro, "Schema$Parser")().parse(text) for text in (writer, reader))
    wrote = avro.Schema.applyAliases(wrote, wanted)
    action = avro.Resolver.resolve(wrote, wanted, avro.generic.GenericData.get())
    try:
        return Reading(json.loads(str(_Types(jvm).of(action, "").toString())))
    except _DiffersError as error:
        return Reading(json.loads(reader), str(error))
    except Py4JJavaError as error:
        # Two fields can't share a named type in two forms, and a union can't have two equal types.
        if "Can't redefine" not in str(error) and "Duplicate in union" not in str(error):
            raise
        return Reading(json.loads(reader), "fields that share a type differ")


class _Types:
    """Derives the schema for decoding from Avro's own resolution of two schemas."""

    def __init__(self, jvm: Any) -> None:
        self._jvm, self._schema = jvm, jvm.org.apache.avro.Schema
        self._within: list[str] = []  # names of the records around a field

    def of(self, action: Any, path: str) -> Any:
        """Return the reader's schema, with the writer's types where values must be converted."""
        reader = get_field(action, "reader")
        make = getattr(self, f"_{get_field(action, 'type').name().lower()}", None)
        return reader if make is None else make(action, reader, path)

    def _do_nothing(self, action: Any, reader: Any, path: str) -> Any:
        return _leaf(get_field(action, "writer"), reader, path)

    _promote = _do_nothing

    def _container(self, action: Any, reader: Any, path: str) -> Any:
        inner = self.of(get_field(action, "elementAction"), path)
        is_array = reader.getType().name() == "ARRAY"
        return (self._schema.createArray if is_array else self._schema.createMap)(inner)

    def _enum(self, action: Any, reader: Any, path: str) -> Any:
        """Remove the default, which would replace each symbol that the reader lacks."""
        writer = get_field(action, "writer")
        if _logical(writer) != _logical(reader):
            raise _differs(writer, reader, path)
        if reader.getEnumDefault() is None:
            return reader
        parts = reader.getName(), reader.getDoc(), reader.getNamespace()
        return _renamed(reader, self._schema.createEnum(*parts, reader.getEnumSymbols()))

    def _record(self, action: Any, reader: Any, path: str) -> Any:
        name = str(reader.getFullName())
        if name in self._within:
            return reader  # Spark refuses recursive types
        self._within.append(name)
        ours = iter(get_field(action, "readerOrder"))
        made = {}
        for inner in get_field(action, "fieldActions"):
            if get_field(inner, "type").name() != "SKIP":
                field = next(ours)
                made[field.name()] = self.of(inner, f"{path}{field.name()}.")
        self._within.pop()
        fields = self._jvm.java.util.ArrayList()
        for field in reader.getFields():
            schema = made.get(field.name(), field.schema())
            fields.add(self._field(field, schema))
        parts = reader.getName(), reader.getDoc(), reader.getNamespace(), reader.isError()
        return _renamed(reader, self._schema.createRecord(*parts, fields))

    def _field(self, field: Any, schema: Any) -> Any:
        make = getattr(self._jvm.org.apache.avro, "Schema$Field")
        if str(schema.toString()) == str(field.schema().toString()):
            return make(field, field.schema())
        # The message has the field, so the default, which may have another type, is unused.
        made = make(field.name(), schema)
        for alias in field.aliases():
            made.addAlias(alias)
        return made

    def _reader_union(self, action: Any, reader: Any, path: str) -> Any:
        number, inner = get_field(action, "firstMatch"), get_field(action, "actualAction")
        return self._union(reader, {number: self.of(inner, path)})

    def _writer_union(self, action: Any, reader: Any, path: str) -> Any:
        """Merge the schemas for each type of the writer's union."""
        made: dict[str, Any] = {}
        for number, inner in enumerate(get_field(action, "actions")):
            if get_field(inner, "type").name() == "ERROR":
                continue  # a message with such a value cannot be read
            schema = self.of(inner, path)
            if get_field(action, "unionEquiv") and reader.getType().name() == "UNION":
                schema = self._union(reader, {number: schema})
            made[str(schema.toString())] = schema
        plain = str(reader.toString())
        others = [schema for text, schema in made.items() if text != plain]
        if not others:
            return reader
        if reader.getType().name() != "UNION":
            if len(made) == 1:
                return others[0]
            raise _differs(get_field(action, "writer"), reader, path)
        changed: dict[int, Any] = {}
        for number, ours in enumerate(reader.getTypes()):
            forms = {str(union.getTypes()[number].toString()): union for union in others}
            forms.pop(str(ours.toString()), None)
            if len(forms) > 1:
                raise _differs(get_field(action, "writer"), reader, path)
            for union in forms.values():
                changed[number] = union.getTypes()[number]
        return self._union(reader, changed)

    def _union(self, reader: Any, changed: Mapping[int, Any]) -> Any:
        types = self._jvm.java.util.ArrayList()
        for number, ours in enumerate(reader.getTypes()):
            types.add(changed.get(number, ours))
        return self._schema.createUnion(types)


def _renamed(old: Any, new: Any) -> Any:
    """Return a named type with another's aliases."""
    for alias in old.getAliases():
        new.addAlias(alias)
    return new


def _leaf(writer: Any, reader: Any, path: str) -> Any:
    """Return the schema to decode a value: the reader's, or the writer's if it is converted."""
    wrote, wanted = _logical(writer), _logical(reader)
    if wrote == wanted:
        is_inexact = (writer.getType().name(), reader.getType().name()) in _INEXACT
        return writer if is_inexact else reader
    both = wrote[0], wanted[0]
    is_moment = any(all(name.startswith(kind) for name in both) for kind in _MOMENTS)
    if is_moment or (
        both == ("decimal", "decimal") and writer.getObjectProp("precision") <= DIGITS
    ):
        return writer
    raise _differs(writer, reader, path)


def _logical(schema: Any) -> tuple[str, int]:
    """Return a schema's logical type and its scale."""
    name = schema.getProp("logicalType")
    if name in (None, "uuid"):  # a UUID is an ordinary text
        return "", 0
    if schema.getLogicalType() is None:  # unknown to Avro, or on an unsuitable type
        return f"unknown {name}", 0
    return str(name), int(schema.getObjectProp("scale") or 0) if name == "decimal" else 0


def _differs(writer: Any, reader: Any, path: str) -> _DiffersError:
    kinds = _described(writer), _described(reader)
    return _DiffersError(f"{path.rstrip('.')} is {kinds[0]}, and source.schema has {kinds[1]}")


def _described(schema: Any) -> str:
    """Return a schema as a short text, such as `long (timestamp-millis)`."""
    kind = str(schema.getType().getName())
    if kind == "union":
        return f"a union of {', '.join(_described(part) for part in schema.getTypes())}"
    name = schema.getProp("logicalType")
    digits = [schema.getObjectProp(part) for part in ("precision", "scale")]
    text = ", ".join(str(part) for part in (name, *digits) if part is not None)
    return f"{kind} ({text})" if name else kind


class Conversion(NamedTuple):
    """The conversion of decoded rows to the group's schema.

    Attributes:
        kind: The type to cast them to.
        problem: SQL of a row's problem, see `problem_of`; NULL if the cast keeps every value.
    """

    kind: T.StructType
    problem: str


def conversion(value: str, wrote: T.StructType, wanted: T.StructType) -> Conversion:
    """Return the conversion of a column `value`.

    Raises:
        LookupError: The types cannot be converted.
    """
    cases = []
    for ours, field in zip(wrote, wanted, strict=True):
        place, kind = f"{value}.{quoted(ours.name)}", field.dataType.simpleString().upper()
        lost = " OR ".join(_lost(place, ours.dataType, field.dataType))
        start = literal(f"{field.name} is ")
        end = literal(f", which {kind} cannot hold")
        text = f"concat({start}, left(CAST({place} AS STRING), {SHOWN}), {end})"
        if lost:
            cases.append((lost, text, literal("give it a wider type in source.schema")))
    return Conversion(_nullable(wanted), problem_of(cases or [("false", "''", "''")]))


def _nullable(kind: T.StructType) -> T.StructType:
    """Return the type with nullable parts, because Spark casts only to such a type."""
    marks = ("nullable", "containsNull", "valueContainsNull")
    parts = json.loads(
        kind.json(), object_hook=lambda part: part | {mark: True for mark in marks if mark in part}
    )
    return T.StructType.fromJson(parts)


def _lost(value: str, wrote: T.DataType, wanted: T.DataType, depth: int = 0) -> Iterator[str]:
    """Yield conditions under which a cast would change a value."""
    item = f"v{depth}"
    if isinstance(wrote, T.StructType) and isinstance(wanted, T.StructType):
        if len(wrote) != len(wanted):
            raise LookupError(f"{wrote.simpleString()} cannot become {wanted.simpleString()}")
        for ours, field in zip(wrote, wanted, strict=True):
            yield from _lost(f"{value}.{quoted(ours.name)}", ours.dataType, field.dataType, depth)
    elif isinstance(wrote, T.ArrayType) and isinstance(wanted, T.ArrayType):
        for lost in _lost(item, wrote.elementType, wanted.elementType, depth + 1):
            yield f"coalesce(exists({value}, {item} -> {lost}), false)"
    elif isinstance(wrote, T.MapType) and isinstance(wanted, T.MapType):
        for lost in _lost(item, wrote.valueType, wanted.valueType, depth + 1):
            yield f"coalesce(exists(map_values({value}), {item} -> {lost}), false)"
    elif isinstance(wrote, T.DecimalType) and isinstance(wanted, T.DecimalType):
        same = f"CAST({value} AS {wanted.simpleString()}) = {value}"
        yield f"({value} IS NOT NULL AND NOT coalesce({same}, false))"
    elif type(wanted) in _WHOLE and isinstance(wrote, (T.IntegerType, T.LongType)):
        last = _WHOLE[type(wanted)]
        yield f"coalesce({value} NOT BETWEEN -{last} AND {last}, false)"
    elif isinstance(wrote, T.BinaryType) and isinstance(wanted, T.StringType):
        yield f"coalesce({decoded(value, 'UTF-8')[1]}, false)"
    elif type(wrote) is not type(wanted):
        raise LookupError(f"{wrote.simpleString()} cannot become {wanted.simpleString()}")
