"""YAML files: YAML 1.2 (core schema), as yamlcore reads it with PyYAML's parser in C, with merge keys.

In YAML 1.2 `no` and `on` are words and `010` is ten; yamlcore also refuses a key that is given twice. This module adds
the merge key `<<`, which YAML 1.2 does not have, and limits against files that could never be read to their end.
ruamel.yaml would need the same limits; its import takes 85 ms instead of 14, and its parser 14 times as long.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

MERGE = "<<"
# Far above any study and registry; aliases of aliases of aliases ("billion laughs") reach the first in milliseconds.
MOST_VALUES = 100_000
MOST_LEVELS = 100
TOO_DEEP = f"more than {MOST_LEVELS} levels of lists and mappings"
LONG_NUMBER = "a whole number of more than 4,300 digits"


def parse_yaml(text: str) -> Any:
    """The content of a YAML file. Each alias and merge key is replaced by a copy of the block that it stands for.

    Raises ValueError, with a message of one line, for text that is not YAML 1.2 with unique keys, a tag, a block that
    contains itself, more than 100,000 values or 100 levels, a whole number above 4,300 digits, and a NUL character.
    """
    import yaml  # not at the start of `phrasemt --help` and of stages, which read no YAML
    from yamlcore import CCoreLoader

    levels = 0
    try:
        # The parser goes through any depth and knows no types; the constructor overflows the stack, and its types fail.
        for event in yaml.parse(text, Loader=CCoreLoader):
            levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            tag = getattr(event, "tag", None)
            if levels > MOST_LEVELS or tag is not None:
                problem = "tags have no meaning here; delete this one" if tag else TOO_DEEP
                raise yaml.MarkedYAMLError(None, None, problem, event.start_mark)  # type: ignore[arg-type]
        content = yaml.load(text, Loader=CCoreLoader)
    except yaml.MarkedYAMLError as error:
        raise ValueError(_located(error, text)) from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise ValueError(f"line {line}: {error.reason}") from None
    except ValueError:  # Python's limit, as converting such a number takes long
        raise ValueError(LONG_NUMBER) from None
    return _expanded(content, (), itertools.count(1))


def check_yaml_1_1(text: str) -> None:
    """Raise ValueError, with the place, for a value that YAML 1.1 knows as a date or the like and that is none.

    Snakemake reads a study with PyYAML as YAML 1.1 before its Snakefile, and shows a traceback for 2024-13-45.
    """
    import yaml

    class Located(yaml.CFullLoader):
        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except ValueError as error:
                what = f"{error}; Snakemake reads YAML 1.1, in which this needs quotes"
                raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from None

    try:
        yaml.load(text, Loader=Located)
    except yaml.MarkedYAMLError as error:
        raise ValueError(_located(error, text)) from None


def _located(error: yaml.MarkedYAMLError, text: str) -> str:
    """The message of the parser on one line, with its place and the text there."""
    message = ", ".join(part for part in (error.context, error.problem) if part)
    if error.problem_mark is None:
        return message
    line, column = error.problem_mark.line, error.problem_mark.column
    there = "".join(text.split("\n")[line : line + 1])[column:].strip()[:40]
    return f"line {line + 1}, column {column + 1}{f', at {there!r}' if there else ''}: {message}"


def _expanded(value: Any, above: tuple[Any, ...], values: Iterator[int]) -> Any:
    """A copy with merge keys resolved. above: the lists and mappings around the value; values: counts them all."""
    if next(values) > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values, when aliases are replaced by what they stand for")
    if isinstance(value, int) and value.bit_length() > 14_284:  # Python prints no longer one
        raise ValueError(LONG_NUMBER)
    if isinstance(value, str) and "\0" in value:
        raise ValueError(f"a NUL character in {value[:40]!r}")
    if not isinstance(value, dict | list):
        return value
    if any(value is other for other in above):
        raise ValueError("an alias inside the block that it stands for")
    if len(above) == MOST_LEVELS:
        raise ValueError(TOO_DEEP)
    above = (*above, value)
    if isinstance(value, list):
        return [_expanded(item, above, values) for item in value]
    expanded = {_expanded(key, above, values): _expanded(item, above, values) for key, item in value.items()}
    if MERGE not in expanded:
        return expanded
    merged = expanded.pop(MERGE)
    blocks = merged if isinstance(merged, list) else [merged]
    if not all(isinstance(block, dict) for block in blocks):
        raise ValueError(f"{MERGE} takes a mapping or a list of mappings, found {str(merged)[:40]!r}")
    result: dict[Any, Any] = {}
    for block in reversed(blocks):  # where several blocks have a key, the first of them counts
        result |= block
    return result | expanded


def format_yaml(content: Any) -> str:
    """Return the YAML text of mappings, lists, words and numbers, which `parse_yaml` reads back as they are."""
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    text: str = yaml.dump(content, Dumper=Plain, sort_keys=False, allow_unicode=True, width=120)
    return text
