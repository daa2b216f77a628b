"""JSON texts as rows, with the problem of each text that Spark would read with a loss.

Spark's parser stops after the first object of a text, keeps the last of two equal keys, drops keys
that differ by case, and turns half a surrogate pair into `?`, each without an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hudilab_jobs.pipelines.text_values import (
    EXTRA,
    RECODE,
    SHOWN,
    TIMES,
    Texts,
    decoded,
    encoding_problem,
    literal,
    problem_of,
    quoted,
    remedy,
    shown,
    widened,
)

# A number of more than 15 digits with a point, or with an exponent of three.
_LONG = "(?=[0-9.]{17})[0-9]*[.]|[0-9][eE][-+]?[0-9]{3}"
ROW, PROBLEM, LINE = "json_row", "json_problem", "json_line"
_TEXT, _PARSED, _WHOLE = "_json_text", "_json_parsed", "_json_whole"
_WRONG = "_json_wrong"  # where Spark says that a value does not fit
# A high surrogate without a low one, or a low one without a high one.
_LONE = (
    r"(?i)(?<!\\)(?:\\\\)*\\u(?:d[89ab][0-9a-f]{2}(?!\\ud[c-f])"
    r"|(?<!\\ud[89ab][0-9a-f]{2}\\u)d[c-f][0-9a-f]{2})"
)
# What to do about a message in another encoding.
_RECODE = "correct the program that wrote it, or write its encoding into source.options"
_IS_ARRAY = f"left({_TEXT}, 1) = '['"
_OTHER_ENDS = ("\\'", " ", "\\t", "\\n", "\\r")  # of a key, before its colon
_FLOATING = "^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$"
_ENDS = '",}] '  # of a number, or of a text like one
_INFINITE = r'(?i)[:,\[]\s*"?[+-]?inf(inity)?"?\s*[,\]}]'


def with_json(
    rows: DataFrame,
    column: str,
    schema: T.StructType,
    texts: Texts,
    *,
    arrays: bool,
    lines: bool = False,
) -> DataFrame:
    """Parse the JSON texts of a column into the columns `json_row` and `json_problem`.

    json_row: STRUCT of `schema`, with NULL for what does not fit; NULL for a blank text.
    json_problem: STRING, `problem; remedy`, or NULL.

    Args:
        column: STRING or BINARY, in UTF-8 or the option `encoding`.
        arrays: Whether an array of objects becomes a row for each; else it is a problem.
        lines: Whether to add `json_line` too: STRING, the text, in hex if it is not of the
            encoding; of an array without a problem as a whole, the row's object as JSON.
    """
    charset = texts.charset
    raw = quoted(column)
    text, check = decoded(raw, charset)
    rows = rows.withColumn(_TEXT, F.expr(f"trim(LEADING ' \\t\\r\\n\\ufeff' FROM {text})"))
    fields = T.StructType([T.StructField(f.name, _parsed_as(f.dataType)) for f in schema])
    wrapper = T.StructType().add("rows", T.ArrayType(fields)).add("end", "integer")
    wrapper = wrapper.add(_WRONG, "string")
    # The end of the wrapper is only read if nothing else ended the text.
    wrapped = f"""concat('{{"rows":[', {_TEXT}, '],"end":1}}')"""
    if arrays:
        wrapped = f"""if({_IS_ARRAY}, concat('{{"rows":', {_TEXT}, ',"end":1}}'), {wrapped})"""
    # Spark drops commas out of a decimal in quotes, but not in a locale that has none.
    options = {"locale": "de-CH"} | dict(texts.options)
    options |= {"mode": "PERMISSIVE", "columnnameofcorruptrecord": _WRONG}
    rows = rows.withColumn(_PARSED, F.from_json(F.expr(wrapped), wrapper, options))
    cases = [
        (check, encoding_problem(charset, RECODE if arrays else _RECODE)),
        *_text_cases(schema, arrays, texts.options),
    ]
    rows = rows.withColumn(_WHOLE, F.expr(problem_of(cases)))
    parsed = f"{_PARSED}.rows"
    if lines:
        line = f"if({_WHOLE} IS NOT NULL AND {check}, hex({raw}), {text})"
        whole = f"array(named_struct('row', {parsed}[0], 'line', {line}))"
        # Spark writes an object's numbers as doubles, so a longer one is only in the whole line.
        objects = f"from_json({_TEXT}, 'array<string>')"
        objects = f"transform({objects}, t -> if({_TEXT} RLIKE '{_LONG}', {text}, t))"
        each = f"zip_with({parsed}, {objects}, (r, t) -> named_struct('row', r, 'line', t))"
        items = F.expr(f"if({_WHOLE} IS NULL AND {_IS_ARRAY}, {each}, {whole})")
        rows = rows.withColumn(_PARSED, F.explode_outer(items))
        parts = {LINE: F.col(f"{_PARSED}.line"), _PARSED: F.col(f"{_PARSED}.row")}
        rows = rows.withColumns(parts)
    elif arrays:
        # Not `explode`: for it, Spark would parse each text a second time, to skip empty arrays.
        rows = rows.withColumn(_PARSED, F.explode_outer(parsed))
    else:
        rows = rows.withColumn(_PARSED, F.expr(f"{parsed}[0]"))
    rows = rows.withColumn(ROW, F.expr(_converted(_PARSED, schema, texts) or _PARSED))
    problem = f"coalesce({_WHOLE}, {problem_of(_value_cases(schema, texts))})"
    rows = rows.withColumn(PROBLEM, F.expr(problem))
    return rows.drop(_TEXT, _PARSED, _WHOLE)


def _parsed_as(kind: T.DataType) -> T.DataType:
    """Return the type that Spark's parser reads, which shows whether something would be lost."""
    if isinstance(kind, TIMES):
        return T.StringType()
    if isinstance(kind, T.DecimalType) and kind.precision <= EXTRA:
        return widened(kind)
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_parsed_as(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(kind.keyType, _parsed_as(kind.valueType))
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _parsed_as(f.dataType)) for f in kind])
    return kind


def _converted(value: str, kind: T.DataType, texts: Texts, depth: int = 0) -> str | None:
    """Return a parsed value as one of its real type; None if it is that already."""
    item = f"x{depth}"
    if isinstance(kind, TIMES):
        return texts.value(value, kind)
    if isinstance(kind, T.DecimalType) and kind.precision <= EXTRA:
        exact = f"try_cast({value} AS {kind.simpleString()})"
        return f"if({exact} = {value}, {exact}, NULL)"
    if isinstance(kind, T.ArrayType):
        inner = _converted(item, kind.elementType, texts, depth + 1)
        return inner and f"transform({value}, {item} -> {inner})"
    if isinstance(kind, T.MapType):
        inner = _converted(item, kind.valueType, texts, depth + 1)
        return inner and f"transform_values({value}, (k{depth}, {item}) -> {inner})"
    if isinstance(kind, T.StructType):
        places = {f.name: f"{value}.{quoted(f.name)}" for f in kind}
        inners = {f.name: _converted(places[f.name], f.dataType, texts, depth) for f in kind}
        if not any(inners.values()):
            return None
        pairs = (f"{literal(name)}, {inners[name] or place}" for name, place in places.items())
        return f"if({value} IS NULL, NULL, named_struct({', '.join(pairs)}))"
    return None


def _lost(value: str, kind: T.DataType, texts: Texts, depth: int = 0) -> str | None:
    """Return whether a parsed value has a part that its real type cannot hold; None for never."""
    item = f"y{depth}"
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return f"(abs({value}) = double('inf') AND NOT {_TEXT} RLIKE {literal(_INFINITE)})"
    if isinstance(kind, T.StringType):
        # Spark takes a number for the text of a DOUBLE: 1.1 for 1.10, and 100.0 for 1e2.
        is_number = f"contains({value}, '.') AND {value} RLIKE '{_FLOATING}'"
        ends = " OR ".join(f"contains({_TEXT}, concat({value}, '{end}'))" for end in _ENDS)
        return f"({is_number} AND NOT ({ends}))"
    if isinstance(kind, T.ArrayType):
        inner = _lost(item, kind.elementType, texts, depth + 1)
        return inner and f"exists({value}, {item} -> {inner})"
    if isinstance(kind, T.MapType):
        inner = _lost(item, kind.valueType, texts, depth + 1)
        return inner and f"exists(map_values({value}), {item} -> {inner})"
    if isinstance(kind, T.StructType):
        inners = (_lost(f"{value}.{quoted(f.name)}", f.dataType, texts, depth) for f in kind)
        return " OR ".join(f"coalesce({inner}, false)" for inner in inners if inner) or None
    converted = _converted(value, kind, texts, depth)
    return converted and f"({value} IS NOT NULL AND {converted} IS NULL)"


def _text_cases(
    schema: T.StructType, arrays: bool, options: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield conditions that a text must not meet, each with the problem and its remedy."""
    rows = f"{_PARSED}.rows"
    misshapen = f"{_TEXT} <> '' AND (size({rows}) <> 1 OR {rows}[0] IS NULL)"
    if arrays:
        misshapen = f"if({_IS_ARRAY}, exists({rows}, x -> x IS NULL), {misshapen})"
    yield (
        f"{rows} IS NULL OR {_PARSED}.end IS NULL OR {misshapen}",
        shown(
            "it is not one JSON object, or it does not fit source.schema: ",
            _TEXT,
            "write one object a line, with nothing after it, and correct values or source.schema; "
            "an object or array of several lines needs multiLine=true in source.options",
        ),
    )
    yield (
        f"{_PARSED}.{_WRONG} IS NOT NULL",
        shown("a value does not fit source.schema: ", _TEXT, "correct it, or source.schema"),
    )
    yield (
        f"contains({_TEXT}, '\\\\u') AND (contains({_TEXT}, '\\\\ud') OR "
        f"contains({_TEXT}, '\\\\uD')) AND {_TEXT} RLIKE {literal(_LONE)}",
        shown("it has half a surrogate pair: ", _TEXT, "correct the program that wrote it"),
    )
    # Options that let keys be written in other ways, such as allowUnquotedFieldNames.
    lenient = [text for pair in options.items() if pair[0].startswith("allow") for text in pair]
    form = f", map({', '.join(map(literal, lenient))})" if lenient else ""
    doubtful = _doubtful(_TEXT, schema, form)
    if doubtful and not lenient:
        doubtful = f"NOT ({_has_plain_keys(schema)}) AND ({doubtful})"
    if arrays:
        doubtful = f"if({_IS_ARRAY}, {_doubtful(_TEXT, T.ArrayType(schema), form)}, {doubtful})"
    yield (
        doubtful or "false",
        shown(
            "it repeats a key, or spells it with other capitals than source.schema: ",
            _TEXT,
            "write each key once, as source.schema has it",
        ),
    )


def _value_cases(schema: T.StructType, texts: Texts) -> Iterator[tuple[str, str]]:
    """Yield conditions that a parsed row must not meet, each with the problem and its remedy."""
    for field in schema:
        parsed = f"{_PARSED}.{quoted(field.name)}"
        lost = _lost(parsed, field.dataType, texts)
        if lost and isinstance(field.dataType, (*TIMES, T.DecimalType)):
            # The converted value is there already.
            lost = f"({parsed} IS NOT NULL AND {ROW}.{quoted(field.name)} IS NULL)"
        if lost:
            name = field.dataType.simpleString().upper()
            yield (
                lost,
                f"concat({literal(f'column {field.name} has ')}, "
                f"left(CAST({parsed} AS STRING), {SHOWN}), "
                f"{literal(f', which is not {name}; {remedy(field.dataType)}')})",
            )
    yield "false", "''"


def _has_plain_keys(schema: T.StructType) -> str:
    """Return whether a text has no more keys than columns that are there, which is quick to see.

    A key ends with a quote and a colon, so a text has at most as many keys as such pairs, unless a
    key ends in another way. If each pair belongs to another column, no key is there twice, or with
    other capitals. A column that is NULL has a pair if its key is there, but among structs, or
    names with quotes, that pair may belong to another column.
    """
    is_flat = not any(
        isinstance(field.dataType, T.StructType) or set(field.name) & {'"', "\\"}
        for field in schema
    )

    def present(value: str, kind: T.StructType) -> Iterator[str]:
        for field in kind:
            place = f"{value}.{quoted(field.name)}"
            key = literal(f'"{field.name}":')
            null = f" OR contains({_TEXT}, {key})" if is_flat else ""
            yield f"if({place} IS NOT NULL{null}, 2, 0)"
            if isinstance(field.dataType, T.StructType):
                yield from present(place, field.dataType)

    pairs = f"""octet_length({_TEXT}) - octet_length(replace({_TEXT}, '":', ''))"""
    columns = " + ".join(present(f"{_PARSED}.rows[0]", schema))
    # A regular expression for these ends takes as long as a list of the keys.
    others = " OR ".join(f"contains({_TEXT}, '{end}:')" for end in _OTHER_ENDS)
    return f"{pairs} = {columns} AND NOT ({others})"


def _doubtful(text: str, kind: T.DataType, form: str, depth: int = 0) -> str | None:
    """Return whether a JSON text has a key twice or with other capitals; None for never.

    Args:
        form: The options of Spark's parser as SQL's last argument; empty without.
    """
    item, keys = f"t{depth}", f"k{depth}"
    if isinstance(kind, T.ArrayType):
        inner = _doubtful(item, kind.elementType, form, depth + 1)
        return inner and f"exists(from_json({text}, 'array<string>'{form}), {item} -> {inner})"
    entries = f"from_json({text}, 'map<string,string>'{form})"
    if isinstance(kind, T.MapType):
        twice = f"size(array_distinct(map_keys({entries}))) < size({entries})"
        inner = _doubtful(item, kind.valueType, form, depth + 1)
        inner = inner and f" OR exists(map_values({entries}), {item} -> {inner})"
        return f"coalesce({twice}{inner or ''}, false)"
    if not isinstance(kind, T.StructType):
        return None
    names = f"array({', '.join(literal(f.name) for f in kind)})"
    lower = f"array({', '.join(literal(f.name.lower()) for f in kind)})"
    # The first function supports neither NaN nor options.
    keys_of_object = f"json_object_keys({text}), map_keys({entries})"
    ours = f"filter({keys}, k -> array_contains({lower}, lower(k)))"
    # A lambda evaluates the list once.
    conditions = [
        f"exists(array(coalesce({keys_of_object})), {keys} -> NOT ({keys} <=> {names}) AND exists("
        f"array({ours}), o -> size(array_distinct(o)) < size(o) OR "
        f"exists(o, k -> NOT array_contains({names}, k))))"
    ]
    for field in kind:
        path = literal(f"$['{field.name}']")
        value = f"{entries}[{literal(field.name)}]" if form else f"get_json_object({text}, {path})"
        if inner := _doubtful(value, field.dataType, form, depth + 1):
            conditions.append(inner)
    return " OR ".join(f"coalesce({condition}, false)" for condition in conditions)
