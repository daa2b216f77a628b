"""JSON texts as rows, with the problem of each text that Spark would read with a loss.

Spark's parser stops after the first object of a text, keeps the last of two equal keys, drops keys
that differ by case, turns half a surrogate pair into `?`, rounds decimals, and rewrites numbers in
STRING columns, each without an error. So each number gets quotes and a mark here, and reaches its
column digit by digit. The words true and false get them, too, or Spark would not name the column
of a text that is neither.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hudi_sink.rows import refuse
from hudilab_jobs.pipelines.text_values import (
    FIX_PROGRAM,
    FLOATS,
    INTEGERS,
    RECODE,
    SHOWN,
    SPECIAL_NUMBERS,
    TIMES,
    Case,
    Texts,
    decoded,
    encoding_problem,
    literal,
    named,
    problem_of,
    quoted,
    remedy_for,
    shown,
)

ROW, PROBLEM, LINE = "json_row", "json_problem", "json_line"
_TEXT, _PARSED, _WHOLE = "_json_text", "_json_parsed", "_json_whole"
_MARKED = "_json_marked"  # the text with marked numbers
_WRONG = "_json_wrong"  # where Spark says that a value does not fit
# A high surrogate without a low one, or a low one without a high one.
_LONE = (
    r"(?i)(?<!\\)(?:\\\\)*\\u(?:d[89ab][0-9a-f]{2}(?!\\ud[c-f])"
    r"|(?<!\\ud[89ab][0-9a-f]{2}\\u)d[c-f][0-9a-f]{2})"
)
# What to do about a message in another encoding.
_RECODE = f"{FIX_PROGRAM}, or write its encoding into source.options"
_BLANKS = r"' \t\r\n\ufeff'"  # around a text
_IS_ARRAY = f"left({_TEXT}, 1) = '['"
_ESCAPE = "\\"
_OTHER_ENDS = ("\\'", " ", "\\t", "\\n", "\\r")  # of a key, before its colon
# What begins a number, true or false when it has become a text. Unicode reserves the character for
# such uses.
_MARK = "\ufdd0"
_ESCAPED_MARK = r"(?i)(?<!\\)(?:\\\\)*\\ufdd0"
_STRINGS = r""""[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+'"""
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|NaN|[+-]?(?:Infinity|INF)"
_NUMBER = rf"{_NUMBER}|true|false"
# A number, after anything but numbers. It never goes back, so it takes neither time nor stack.
# Where valid JSON ends, so do the matches, and Spark's parser refuses the text.
_BETWEEN = r"""[^"'0-9NItf+-]*+"""
_NUMBERS = rf"""(?s)\G((?:{_BETWEEN}(?:{_STRINGS}))*+{_BETWEEN})({_NUMBER})(?=\s*+(?:[,\]}}]|$))"""
# A line that begins an object or array and, outside of its strings, promises more.
_UNFINISHED = r"""(?s)^[{\[](?:[^"]++|"(?:[^"\\]++|\\.)*+")*+(?<=[{\[:,])$"""


def lines_are_whole(column: str, texts: Texts, file: str) -> Column:
    """Return a condition that is true, or an error, because inner objects look like rows.

    Args:
        column: STRING, the line.
        file: The SQL of its file.
    """
    line = f"trim(BOTH {_BLANKS} FROM {decoded(quoted(column), texts.charset)[0]})"
    problem = shown(
        "an object or array does not end where its line does, so more lines may belong to it: ",
        line,
    )
    remedy = F.lit("correct or remove the line, or set multiLine=true in source.options")
    may_be = f"right({line}, 1) IN ('{{', '[', ':', ',')"  # quicker than a regular expression
    unfinished = F.expr(f"{may_be} AND {line} RLIKE {literal(_UNFINISHED)}")
    error = refuse(F.expr(f"concat({file}, ': ', {problem})"), remedy)
    return F.when(unfinished, error).otherwise(True)


def has_just(text: str, names: Sequence[str]) -> str:
    """Return whether an object has each of these keys once, and no other; quick, false in doubt.

    A key ends with a quote and a colon. If there are as many such pairs as names, each name has
    one, and there is no inner object, there are no others. A key may itself end with a quote and a
    name.

    Args:
        text: The SQL of a JSON object, with or without its first brace.
    """
    conditions = [f"{_pairs(text)} = {len(names)}", f"NOT ({_other_ends(text)})"]
    conditions.append(f"NOT contains(substring({text}, 2), '{{')")
    for name in names:
        conditions.append(f"contains({text}, {key_in_text(name)})")
        conditions.append(f"NOT contains({text}, {key_in_text(name, before=_ESCAPE)})")
    return " AND ".join(conditions)


def has_once(text: str, names: Sequence[str]) -> str:
    """Return whether a text has each of these keys once and in this order; false in doubt.

    The keys may be those of inner objects.

    Args:
        text: The SQL of a JSON object.
    """
    # In any spelling, except for escapes.
    keys = literal(rf"""["'](?i:{"|".join(map(re.escape, names))})["']\s*:""")
    usual = ", ".join(map(key_in_text, names))
    found = f"regexp_extract_all({text}, {keys}, 0)"
    return f"NOT contains({text}, '\\\\u') AND {found} = array({usual})"


def key_in_text(name: str, before: str = "") -> str:
    """Return the SQL of a key and its colon as they are usually in a text."""
    return literal(f"{before}{json.dumps(name, ensure_ascii=False)}:")


def with_json(  # noqa: PLR0913 - the last three are keywords
    rows: DataFrame,
    column: str,
    schema: T.StructType,
    texts: Texts,
    *,
    arrays: bool,
    lines: bool = False,
    plain: str | None = None,
) -> DataFrame:
    """Parse the JSON texts of a column into the columns `json_row` and `json_problem`.

    json_row: STRUCT of `schema`, with NULL for what does not fit; NULL for a blank text.
    json_problem: STRUCT<problem STRING, remedy STRING>, or NULL.

    Args:
        column: STRING or BINARY, in UTF-8 or the option `encoding`.
        arrays: Whether an array of objects becomes a row for each; else it is a problem.
        lines: Whether to add `json_line` too: STRING, the text, in hex if it is not of the
            encoding; of an array without a problem as a whole, the row's object as JSON.
        plain: The SQL of whether a text surely has no key twice, or with other capitals. By
            default, the number of its keys is compared with the columns that are there.
    """
    charset = texts.charset
    raw = quoted(column)
    text, check = decoded(raw, charset)
    rows = rows.withColumn(_TEXT, F.expr(f"trim(LEADING {_BLANKS} FROM {text})"))
    fields = T.StructType([T.StructField(f.name, _parsed_as(f.dataType)) for f in schema])
    wrapper = T.StructType().add("rows", T.ArrayType(fields)).add("end", "integer")
    wrapper = wrapper.add(_WRONG, "string")
    rows = rows.withColumn(_MARKED, F.regexp_replace(_TEXT, _NUMBERS, f'$1"{_MARK}$2"'))
    # The end of the wrapper is only read if nothing else ended the text.
    wrapped = f"""concat('{{"rows":[', {_MARKED}, '],"end":1}}')"""
    if arrays:
        wrapped = f"""if({_IS_ARRAY}, concat('{{"rows":', {_MARKED}, ',"end":1}}'), {wrapped})"""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _WRONG}
    rows = rows.withColumn(_PARSED, F.from_json(F.expr(wrapped), wrapper, options))
    cases = [
        (check, *encoding_problem(charset, RECODE if arrays else _RECODE)),
        *_text_cases(schema, plain or _has_plain_keys(schema), arrays),
    ]
    rows = rows.withColumn(_WHOLE, F.expr(problem_of(cases)))
    parsed = f"{_PARSED}.rows"
    if lines:
        line = f"if({_WHOLE} IS NOT NULL AND {check}, hex({raw}), {text})"
        whole = f"array(named_struct('row', get({parsed}, 0), 'line', {line}))"
        objects = f"from_json({_MARKED}, 'array<string>')"
        part = f"named_struct('row', row, 'line', {_unmarked('object')})"
        parts = f"zip_with({parsed}, {objects}, (row, object) -> {part})"
        items = F.expr(f"if({_WHOLE} IS NULL AND {_IS_ARRAY}, {parts}, {whole})")
        rows = rows.withColumn(_PARSED, F.explode_outer(items))
        of_item = {LINE: F.col(f"{_PARSED}.line"), _PARSED: F.col(f"{_PARSED}.row")}
        rows = rows.withColumns(of_item)
    elif arrays:
        # Not `explode`: for it, Spark would parse each text a second time, to skip empty arrays.
        rows = rows.withColumn(_PARSED, F.explode_outer(parsed))
    else:
        rows = rows.withColumn(_PARSED, F.expr(f"get({parsed}, 0)"))
    rows = rows.withColumn(ROW, F.expr(_converted(_PARSED, schema, texts)))
    problem = f"coalesce({_WHOLE}, {problem_of(_value_cases(schema, texts))})"
    rows = rows.withColumn(PROBLEM, F.expr(problem))
    return rows.drop(_TEXT, _MARKED, _PARSED, _WHOLE)


def _parsed_as(kind: T.DataType) -> T.DataType:
    """Return the type that Spark's parser reads: texts, except for bytes."""
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_parsed_as(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(kind.keyType, _parsed_as(kind.valueType))
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _parsed_as(f.dataType)) for f in kind])
    if isinstance(kind, (*TIMES, *INTEGERS, *FLOATS, T.DecimalType, T.BooleanType)):
        return T.StringType()
    return kind


def _unmarked(text: str) -> str:
    """Return a part of a marked text as it was written."""
    numbers = f"""regexp_replace({text}, '"{_MARK}([^"]*)"', '$1')"""
    inner = f"if(contains({text}, '{_MARK}'), {numbers}, {text})"
    return f"if(startswith({text}, '{_MARK}'), substring({text}, 2), {inner})"


def _converted(value: str, kind: T.DataType, texts: Texts, depth: int = 0) -> str:
    """Return a parsed value as one of its real type; NULL if it would not be exact."""
    item = f"x{depth}"
    if isinstance(kind, T.StringType):
        return _unmarked(value)
    if isinstance(kind, T.BooleanType):
        return f"CASE {value} WHEN '{_MARK}true' THEN true WHEN '{_MARK}false' THEN false END"
    if isinstance(kind, INTEGERS):
        return texts.value(f"if(startswith({value}, '{_MARK}'), substring({value}, 2), '')", kind)
    if isinstance(kind, FLOATS):
        special = f"lower({value}) IN ({SPECIAL_NUMBERS})"
        number = f"startswith({value}, '{_MARK}') OR {special}"
        return texts.value(f"if({number}, {_bare(value)}, '')", kind)
    if isinstance(kind, (*TIMES, T.DecimalType)):
        return texts.value(_bare(value), kind)
    if isinstance(kind, T.ArrayType):
        inner = _converted(item, kind.elementType, texts, depth + 1)
        return f"transform({value}, {item} -> {inner})"
    if isinstance(kind, T.MapType):
        inner = _converted(item, kind.valueType, texts, depth + 1)
        return f"transform_values({value}, (k{depth}, {item}) -> {inner})"
    if isinstance(kind, T.StructType):
        pairs = (
            f"{literal(f.name)}, "
            + _converted(f"{value}.{quoted(f.name)}", f.dataType, texts, depth)
            for f in kind
        )
        return f"if({value} IS NULL, NULL, named_struct({', '.join(pairs)}))"
    return value


def _bare(value: str) -> str:
    return f"trim(LEADING '{_MARK}' FROM {value})"


def _lost(value: str, kind: T.DataType, texts: Texts, depth: int = 0) -> str | None:
    """Return whether a parsed value has a part that its real type cannot hold; None for never."""
    item = f"y{depth}"
    if isinstance(kind, T.ArrayType):
        inner = _lost(item, kind.elementType, texts, depth + 1)
        return inner and f"exists({value}, {item} -> {inner})"
    if isinstance(kind, T.MapType):
        inner = _lost(item, kind.valueType, texts, depth + 1)
        return inner and f"exists(map_values({value}), {item} -> {inner})"
    if isinstance(kind, T.StructType):
        inners = (_lost(f"{value}.{quoted(f.name)}", f.dataType, texts, depth) for f in kind)
        return " OR ".join(f"coalesce({inner}, false)" for inner in inners if inner) or None
    if _parsed_as(kind) == kind:
        return None
    return f"({value} IS NOT NULL AND {_converted(value, kind, texts, depth)} IS NULL)"


def _text_cases(schema: T.StructType, plain: str, arrays: bool) -> Iterator[Case]:
    """Yield conditions that a text must not meet, each with the problem and its remedy."""
    rows = f"{_PARSED}.rows"
    misshapen = f"{_TEXT} <> '' AND (size({rows}) <> 1 OR get({rows}, 0) IS NULL)"
    if arrays:
        misshapen = f"if({_IS_ARRAY}, exists({rows}, x -> x IS NULL), {misshapen})"
    yield (
        f"{rows} IS NULL OR {_PARSED}.end IS NULL OR {misshapen}",
        shown("it is not one JSON object, or it does not fit source.schema: ", _TEXT),
        literal(
            "write one object a line, with nothing after it, and correct values or source.schema; "
            "an object or array of several lines needs multiLine=true in source.options"
        ),
    )
    yield (
        f"{_PARSED}.{_WRONG} IS NOT NULL",
        shown("a value does not fit source.schema: ", _TEXT),
        literal("correct it, or source.schema"),
    )
    yield (
        f"contains({_TEXT}, '\\\\u') AND (contains({_TEXT}, '\\\\ud') OR "
        f"contains({_TEXT}, '\\\\uD')) AND {_TEXT} RLIKE {literal(_LONE)}",
        shown("it has half a surrogate pair: ", _TEXT),
        literal(FIX_PROGRAM),
    )
    yield (
        f"contains({_TEXT}, '{_MARK}') OR "
        f"contains({_TEXT}, '\\\\u') AND {_TEXT} RLIKE {literal(_ESCAPED_MARK)}",
        shown(
            "it has the character U+FDD0, which Unicode reserves for the use inside of programs: ",
            _TEXT,
        ),
        literal(FIX_PROGRAM),
    )
    doubtful = _doubtful(_TEXT, schema)
    if doubtful:
        # Of an AND, Spark may evaluate both sides for each text.
        doubtful = f"if({plain}, false, {doubtful})"
    if arrays:
        doubtful = f"if({_IS_ARRAY}, {_doubtful(_TEXT, T.ArrayType(schema))}, {doubtful})"
    yield (
        doubtful or "false",
        shown("it repeats a key, or spells it with other capitals than source.schema: ", _TEXT),
        literal("write each key once, as source.schema has it"),
    )


def _value_cases(
    schema: T.StructType, texts: Texts, path: str = "", outer: str = ""
) -> Iterator[Case]:
    """Yield conditions that a parsed row must not meet, each with the problem and its remedy."""
    for field in schema:
        kind, name, place = field.dataType, outer + field.name, f"{path}.{quoted(field.name)}"
        if isinstance(kind, T.StructType):
            yield from _value_cases(kind, texts, place, f"{name}.")
            continue
        parsed = f"{_PARSED}{place}"
        if (lost := _lost(parsed, kind, texts)) is None:
            continue
        value = f"left({_unmarked(f'to_json({parsed})')}, {SHOWN})"
        if isinstance(kind, T.AtomicType):
            # The converted value is there already.
            lost = f"({parsed} IS NOT NULL AND {ROW}{place} IS NULL)"
            # A number, true, false, an array or an object.
            bare = f"{parsed} RLIKE '^[{_MARK}\\\\[{{]'"
            has_no_texts = isinstance(kind, (*INTEGERS, *FLOATS, T.BooleanType))
            text = f"concat('\"', {parsed}, '\"')" if has_no_texts else parsed
            value = named(parsed, f"if({bare}, {_unmarked(parsed)}, {text})")
        start, end = f"column {name} has ", f", which is not {kind.simpleString().upper()}"
        yield (
            lost,
            f"concat({literal(start)}, {value}, {literal(end)})",
            literal(remedy_for(kind, json=True)),
        )
    if not outer:
        yield "false", "''", "''"


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

    columns = " + ".join(present(f"get({_PARSED}.rows, 0)", schema))
    return f"{_pairs(_TEXT)} * 2 = {columns} AND NOT ({_other_ends(_TEXT)})"


def _pairs(text: str) -> str:
    """Return how many quotes a text has that a colon follows, of which each may end a key."""
    return f"""(octet_length({text}) - octet_length(replace({text}, '":', ''))) div 2"""


def _other_ends(text: str) -> str:
    """Return whether a text may have a key that ends otherwise."""
    # A regular expression for these ends takes as long as a list of the keys.
    return " OR ".join(f"contains({text}, '{end}:')" for end in _OTHER_ENDS)


def _doubtful(text: str, kind: T.DataType, depth: int = 0) -> str | None:
    """Return whether a JSON text has a key twice or with other capitals; None for never."""
    item = f"t{depth}"
    if isinstance(kind, T.ArrayType):
        inner = _doubtful(item, kind.elementType, depth + 1)
        return inner and f"exists(from_json({text}, 'array<string>'), {item} -> {inner})"
    entries = f"from_json({text}, 'map<string,string>')"
    if isinstance(kind, T.MapType):
        twice = f"size(array_distinct(map_keys({entries}))) < size({entries})"
        inner = _doubtful(item, kind.valueType, depth + 1)
        inner = inner and f" OR exists(map_values({entries}), {item} -> {inner})"
        return f"coalesce({twice}{inner or ''}, false)"
    if not isinstance(kind, T.StructType):
        return None
    # The first function does not support NaN.
    keys = f"coalesce(json_object_keys({text}), map_keys({entries}))"
    # A lambda evaluates the keys once.
    conditions = [f"exists(array({keys}), keys{depth} -> {_has_wrong_keys(f'keys{depth}', kind)})"]
    for field in kind:
        path = literal(f"$['{field.name}']")
        value = f"get_json_object({text}, {path})"
        if inner := _doubtful(value, field.dataType, depth + 1):
            conditions.append(inner)
    return " OR ".join(f"coalesce({condition}, false)" for condition in conditions)


def _has_wrong_keys(keys: str, kind: T.StructType) -> str:
    """Return whether an object's keys have a column twice, or with other capitals."""
    names = f"array({', '.join(literal(field.name) for field in kind)})"
    lower = f"array({', '.join(literal(field.name.lower()) for field in kind)})"
    columns = f"filter({keys}, key -> array_contains({names}, key))"
    is_twice = f"size({columns}) > size(array_distinct({columns}))"
    is_respelled = f"NOT array_contains({names}, key) AND array_contains({lower}, lower(key))"
    has_respelled = f"exists({keys}, key -> {is_respelled})"
    return f"NOT ({keys} <=> {names}) AND ({is_twice} OR {has_respelled})"
