"""YAML files: YAML 1.2 (core schema), as yamlcore reads it with PyYAML's parser in C, with merge keys.

In YAML 1.2 `no` and `on` are words and `010` is ten; yamlcore also refuses a key that is given twice. This module adds
the merge key `<<`, which YAML 1.2 does not have. The import of ruamel.yaml takes 85 ms instead of 14, and its parser 14
times as long.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

MERGE = "<<"
# Values of a file, with those that aliases stand for. Nine levels of nine aliases would stand for 400 million.
_MOST = 300_000


def parse_yaml(text: str) -> Any:
    """The content of a YAML file. Each alias and merge key is replaced by a copy of the block that it stands for.

    Raises ValueError, with a message of one line, for text that is not YAML 1.2 with unique keys, for a block that
    contains itself, and for aliases that stand for too many values.
    """
    import yaml  # not at the start of `phrasemt --help` and of stages, which read no YAML
    from yamlcore import CCoreLoader

    try:
        return _expanded(yaml.load(text, Loader=CCoreLoader), itertools.count(1))
    except yaml.MarkedYAMLError as error:
        raise ValueError(_located(error, text)) from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise ValueError(f"line {line}: {error.reason}") from None
    except LookupError:
        raise ValueError("a tag that does not fit its value") from None
    except RecursionError:
        raise ValueError("too many levels, or an alias inside the block that it stands for") from None


def line_of_key(text: str, keys: Sequence[str]) -> int | None:
    """The line of a key in the text of a YAML file, which may come from a merge key; None if it is not there.

    keys: those that lead to it, and places in lists.
    """
    import yaml

    node, line = yaml.compose(text, Loader=yaml.CSafeLoader), None
    for key in keys:
        if isinstance(node, yaml.SequenceNode):
            node = node.value[int(key)]
            continue
        blocks, entries = [node], []
        for block in blocks:
            if isinstance(block, yaml.SequenceNode):
                blocks += block.value
            elif isinstance(block, yaml.MappingNode):
                entries += [entry for entry in block.value if entry[0].value == key]
                blocks += [value for name, value in block.value if name.value == MERGE]
        if not entries:
            return None
        line, node = entries[0][0].start_mark.line + 1, entries[0][1]
    return line


def _located(error: yaml.MarkedYAMLError, text: str) -> str:
    """The message of the parser on one line, with its place and the text there."""
    message = ", ".join(part for part in (error.context, error.problem) if part)
    if error.problem_mark is None:
        return message
    line, column = error.problem_mark.line, error.problem_mark.column
    there = "".join(text.split("\n")[line : line + 1])[column:].strip()[:40]
    return f"line {line + 1}, column {column + 1}{f', at {there!r}' if there else ''}: {message}"


def _expanded(value: Any, count: Iterator[int]) -> Any:
    if next(count) > _MOST:
        raise ValueError(f"more than {_MOST:,} values, with those that aliases stand for")
    if isinstance(value, list):
        return [_expanded(item, count) for item in value]
    if not isinstance(value, dict):
        return value
    expanded = {key: _expanded(item, count) for key, item in value.items()}
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
