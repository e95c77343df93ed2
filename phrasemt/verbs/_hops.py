"""The stages that a sentence pair passes, and a view of the pair in each of their files.

Sidecars name the stage and the inputs of each artefact, so the hops are the stages that really made the files. They
have the order of the declarations (phrasemt/stages). The role of an output in its declaration selects the view, so a
new stage with a known role needs no change here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from phrasemt.artefacts.columns import ChunkColumns, Examples, PhraseColumns
from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.translations import Translations
from phrasemt.artefacts.vocabulary import Vocabulary
from phrasemt.errors import DamagedFileError
from phrasemt.files.lines import count_lines
from phrasemt.stages import STAGES
from phrasemt.syntax.sentences import parser_tokens, sentence_key
from phrasemt.syntax.store.annotations import Annotations
from phrasemt.syntax.trees import Tree, parse_tree
from phrasemt.verbs._pair import Pair, damaged, nth

_END = "</s>"
_ORDER = {stage: number for number, stage in enumerate(STAGES)}


@dataclass(frozen=True)
class Hop:
    """A stage that made files, with its inputs and outputs by role."""

    stage: str
    inputs: Mapping[str, list[Path]]
    outputs: Mapping[str, Path]


def hops_to(artefacts: Iterable[Path]) -> list[Hop]:
    """Return all stages that led to artefacts, the first one first. The search ends at files without a sidecar."""
    found: dict[tuple[str, ...], Hop] = {}
    waiting = [path for path in artefacts if path.exists()]
    while waiting:
        try:
            sidecar = Sidecar.beside(waiting.pop())
        except DamagedFileError:  # a file of the user
            continue
        outputs = {role: Path(file.path) for role, file in sidecar.outputs.items()}
        key = tuple(sorted(map(str, outputs.values())))
        if key not in found:
            inputs = {role: [Path(file.path) for file in files] for role, files in sidecar.inputs.items()}
            found[key] = Hop(sidecar.stage, inputs, outputs)
            waiting += itertools.chain.from_iterable(inputs.values())
    return sorted(found.values(), key=lambda hop: (_ORDER[hop.stage], *map(str, hop.outputs.values())))


def views(pair: Pair, hops: Iterable[Hop]) -> Iterator[tuple[str, str, Path, str]]:
    """Yield stage, role, file and text of each view of a pair. A text may have several lines.

    Raises DamagedFileError for a file that its stage did not write in this form.
    """
    cleaned = False
    for hop in hops:
        if not _is_about(pair, hop):
            continue
        if hop.stage == "clean_pairs":  # files before it hold raw pairs, which have other line numbers
            cleaned = True
            for side in {tuple(hop.inputs[f"raw_{side}"]): side for side in ("source", "target")}.values():
                path, line = _raw_line(hop.inputs[f"raw_{side}"], pair.row)
                yield "raw", side, path, nth(path, line)
        for path, role in {path: role for role, path in hop.outputs.items()}.items():  # a monolingual text once
            if cleaned and role in _VIEWS:
                try:
                    texts = list(_VIEWS[role](pair, hop))
                except (ValueError, KeyError, TypeError, IndexError) as error:
                    raise damaged(path, hop.stage, repr(error)) from None
                yield from ((hop.stage, role, path, text) for text in texts)


def _is_about(pair: Pair, hop: Hop) -> bool:
    """Return whether the files of a hop hold the split of the pair, or a score of the split."""
    names = {path.name.split(".")[0] for path in hop.outputs.values()}
    return pair.split in names or hop.stage == "make_table"


def _raw_line(paths: Iterable[Path], row: int) -> tuple[Path, int]:
    """Return the raw file that holds a row of the concatenated inputs, and the line in this file."""
    for path in paths:
        lines = count_lines(path)
        if row < lines:
            return path, row
        row -= lines
    raise AssertionError("a kept row lies in one of the inputs")


def _line_of(role: str) -> Callable[[Pair, Hop], Iterator[str]]:
    def view(pair: Pair, hop: Hop) -> Iterator[str]:
        yield nth(hop.outputs[role], pair.line)

    return view


def _ids(pair: Pair, hop: Hop) -> Iterator[str]:
    examples = Examples.open(hop.outputs["examples"])
    for side, ids in (("source", examples.source(pair.line)), ("target", examples.target(pair.line))):
        words = Vocabulary.read(hop.inputs[f"{side}_vocabulary"][0])
        yield " ".join(f"{word}={number}" for word, number in zip(words.tokens(ids), ids.tolist(), strict=True))


def _annotation(pair: Pair, hop: Hop) -> Iterator[str]:
    """Yield the parse or the tags of the sentence, if the sentence belongs to this job's part."""
    language = hop.inputs["sentences"][0].name.split(".")[1]
    tokens = Path(pair.paths.tokens.at(split=pair.split, language=language))
    words = parser_tokens(nth(tokens, pair.line))
    path = hop.outputs["annotations"]
    (annotation,) = Annotations.open([path]).find([sentence_key(words)]) if words else (None,)
    if annotation is None:
        return
    if annotation.text is None:
        yield f"{' '.join(words)} (no annotation: {annotation.failure})"
    elif hop.stage == "parse_sentences":
        yield "\n".join(draw(parse_tree(annotation.text, path), words))
    else:
        yield " ".join(f"{word}/{tag}" for word, tag in zip(words, annotation.text.split(" "), strict=True))


def _phrases(pair: Pair, hop: Hop) -> Iterator[str]:
    ends = PhraseColumns.open(hop.outputs["phrases"]).values("ends", pair.line).tolist()
    yield _bracketed(_subwords(pair, hop), ends)


def _chunks(pair: Pair, hop: Hop) -> Iterator[str]:
    columns = ChunkColumns.open(hop.outputs["chunks"])
    subwords = _subwords(pair, hop)
    _, *ends = columns.values("starts", pair.line).tolist()
    labels = [columns.description["labels"][label] for label in columns.values("labels", pair.line)]
    yield _bracketed(subwords, [*ends, len(subwords)], labels)


def _n_best(pair: Pair, hop: Hop) -> Iterator[str]:
    translated = Translations.parse(nth(hop.outputs["translations"], pair.line))
    for rank, hypothesis in enumerate(translated.n_best, start=1):
        yield f"{rank}-best {hypothesis.subwords} ({hypothesis.score:.4f})"


def _cells(pair: Pair, hop: Hop) -> Iterator[str]:
    table = Table.read(hop.outputs["table"])
    for block in table.blocks:
        if (block.dataset, block.test_set) == (pair.dataset, pair.split):
            for row in block.rows:
                printed = ((column.heading, row.printed(column)) for column in block.columns)
                yield f"{row.title}: {', '.join(f'{heading} {text}' for heading, text in printed if text)}"


_VIEWS: dict[str, Callable[[Pair, Hop], Iterator[str]]] = {
    **{role: _line_of(role) for role in ("source", "target", "tokens", "subwords", "text")},
    "examples": _ids,
    "annotations": _annotation,
    "phrases": _phrases,
    "chunks": _chunks,
    "translations": _n_best,
    "table": _cells,
}


def _subwords(pair: Pair, hop: Hop) -> list[str]:
    """Return the positions of the side that a hop reads: subwords and the end of the sentence."""
    return [*filter(None, nth(hop.inputs["subwords"][0], pair.line).split(" ")), _END]


def _bracketed(subwords: list[str], ends: list[int], labels: list[str] | None = None) -> str:
    spans = [" ".join(subwords[start:end]) for start, end in itertools.pairwise([0, *ends])]
    named = [f"{label} {span}" for label, span in zip(labels, spans, strict=True)] if labels else spans
    return " ".join(f"[{span}]" for span in named)


def draw(tree: Tree, words: list[str]) -> Iterator[str]:
    """Yield a line for every node, with the branches on the left; the line of a leaf holds its word."""
    waiting: list[tuple[Tree, str, str]] = [(tree, "", "")]  # node, text before it, text before the nodes below it
    while waiting:  # no recursion: trees of long sentences are deep
        node, before, below = waiting.pop()
        if node.word is not None:
            yield f"{before}{node.label} {words[int(node.word)]}"
            continue
        yield f"{before}{node.label}"
        last = len(node.children) - 1
        waiting += [
            (child, f"{below}{'└─ ' if number == last else '├─ '}", f"{below}{'   ' if number == last else '│  '}")
            for number, child in reversed([*enumerate(node.children)])
        ]
