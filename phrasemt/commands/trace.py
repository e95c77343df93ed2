"""`phrasemt trace`: show one sentence pair after each stage, from the raw line to its system's row of the table.

Sidecars name the stage and the inputs of each artefact, so the stages shown are those that really made the files. They
have the order of the declarations (phrasemt/stages). The role of an output in its declaration selects the view, so a
new stage with a known role needs no change here.
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from phrasemt.artefacts.columns import ChunkColumns, Examples, PhraseColumns, Vocabulary
from phrasemt.artefacts.corpus import DroppedPairs
from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.translations import Translations
from phrasemt.commands._arguments import (
    add_dataset,
    add_study_option,
    choose,
    chosen_dataset,
    finished_file,
    in_range,
    print_changes,
)
from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.files.lines import count_lines, read_lines
from phrasemt.stages import STAGES
from phrasemt.study.schema import Study
from phrasemt.syntax.annotations import Annotations
from phrasemt.syntax.sentences import parser_tokens, sentence_key
from phrasemt.syntax.trees import Tree, parse_tree
from phrasemt.workflow.changes import changes_since

_ROW = re.compile(r"[1-9][0-9]{0,17}")
_END = "</s>"
_ORDER = {stage: number for number, stage in enumerate(STAGES)}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A pair that cleaning kept. row: its line in the raw text; line: in the files of its split. Both count from 0.

    system: whose translation is shown; None: only the preparation.
    """

    study: Study
    dataset: str
    paths: Paths
    split: str
    row: int
    line: int
    system: str | None = None


@dataclass(frozen=True)
class StageRun:
    """A stage that made files, with its inputs and outputs by role."""

    stage: str
    inputs: Mapping[str, list[Path]]
    outputs: Mapping[str, Path]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pair", metavar="SPLIT:ROW", help="such as test:17; rows of the raw text count from 1")
    add_study_option(parser)
    add_dataset(parser)
    parser.add_argument(
        "--system", metavar="NAME", help="also show the translation of this system (default: the preparation only)"
    )
    parser.add_argument(
        "--seed",
        type=in_range(int, 0),
        metavar="N",
        help="seed of the system's training (default: the first of the study)",
    )


def run(options: argparse.Namespace) -> None:
    """Print a pair after each stage. Raises PhrasemtError when the pair or the translation does not exist."""
    pair = _chosen_pair(options)
    ends = [Path(pair.paths.examples.at(split=pair.split)), Path(pair.paths.chunk_columns.at(split=pair.split))]
    if pair.system is None:
        phrases = pair.paths.phrase_columns.at(split=pair.split)
        ends += (Path(phrases.at(segmenter=segmenter)) for segmenter in pair.study.segmentations)
    else:
        seed = pair.study.seeds_of(pair.system)[0] if options.seed is None else options.seed
        translations = pair.paths.translated_tokens.at(system=pair.system, seed=seed, split=pair.split)
        ends.append(finished_file(translations, f"not translated with seed {seed} yet", options.study))
    runs = stages_to(ends)
    if pair.system is not None and (table := Path(pair.paths.table)).exists():
        runs += [one for one in stages_to([table]) if one.stage == "make_table"]
    print_changes(changes_since(pair.study))
    for stage, role, path, text in views(pair, runs):
        first, *others = text.split("\n")
        print(f"{f'{stage} {role}':<32} {first}   [{path}]")
        for line in others:
            print(f"{'':<32} {line}")


def stages_to(artefacts: Iterable[Path]) -> list[StageRun]:
    """Return all stages that led to artefacts, the first one first. The search ends at files without a sidecar."""
    found: dict[tuple[str, ...], StageRun] = {}
    waiting = [path for path in artefacts if path.exists()]
    while waiting:
        try:
            sidecar = Sidecar.beside(waiting.pop())
        except DamagedFileError:  # no stage wrote it
            continue
        outputs = {role: Path(file.path) for role, file in sidecar.outputs.items()}
        key = tuple(sorted(map(str, outputs.values())))
        if key not in found:
            inputs = {role: [Path(file.path) for file in files] for role, files in sidecar.inputs.items()}
            found[key] = StageRun(sidecar.stage, inputs, outputs)
            waiting += itertools.chain.from_iterable(inputs.values())
    return sorted(found.values(), key=lambda one: (_ORDER[one.stage], *map(str, one.outputs.values())))


def views(pair: Pair, runs: Iterable[StageRun]) -> Iterator[tuple[str, str, Path, str]]:
    """Yield stage, role, file and text of each view of a pair. A text may have several lines."""
    cleaned = False
    for made in runs:
        if not _is_about(pair, made):
            continue
        if made.stage == "clean_pairs":  # files before it have raw pairs, which have other line numbers
            cleaned = True
            for side in {tuple(made.inputs[f"raw_{side}"]): side for side in ("source", "target")}.values():
                path, line = _raw_line(made.inputs[f"raw_{side}"], pair.row)
                yield "raw", side, path, nth(path, line)
        for path, role in {path: role for role, path in made.outputs.items()}.items():  # a monolingual text once
            if cleaned and role in _VIEWS:
                yield from ((made.stage, role, path, text) for text in _VIEWS[role](pair, made))


def _is_about(pair: Pair, made: StageRun) -> bool:
    """Return whether the files of a stage are about the split of the pair."""
    names = {path.name.split(".")[0] for path in made.outputs.values()}
    return pair.split in names or made.stage == "make_table"


def _raw_line(paths: Iterable[Path], row: int) -> tuple[Path, int]:
    """Return the raw file that contains a row of the concatenated inputs, and the line in this file."""
    for path in paths:
        lines = count_lines(path)
        if row < lines:
            return path, row
        row -= lines
    raise AssertionError("a row that cleaning kept lies in one of the inputs")


def _line_of(role: str) -> Callable[[Pair, StageRun], Iterator[str]]:
    def view(pair: Pair, made: StageRun) -> Iterator[str]:
        yield nth(made.outputs[role], pair.line)

    return view


def _ids(pair: Pair, made: StageRun) -> Iterator[str]:
    examples = Examples.open(made.outputs["examples"])
    for side, ids in (("source", examples.source(pair.line)), ("target", examples.target(pair.line))):
        words = Vocabulary.read(made.inputs[f"{side}_vocabulary"][0])
        yield " ".join(f"{word}={number}" for word, number in zip(words.tokens(ids), ids.tolist(), strict=True))


def _annotation(pair: Pair, made: StageRun) -> Iterator[str]:
    """Yield the parse or the tags of the sentence, if the sentence belongs to this job's part."""
    words = parser_tokens(nth(made.inputs["tokens"][0], pair.line))
    path = made.outputs["annotations"]
    (annotation,) = Annotations.open([path]).find([sentence_key(words)]) if words else (None,)
    if annotation is None:
        return
    if annotation.text is None:
        yield f"{' '.join(words)} (no annotation: {annotation.failure})"
    elif made.stage == "parse_sentences":
        yield "\n".join(draw(parse_tree(annotation.text, path), words))
    else:
        yield " ".join(f"{word}/{tag}" for word, tag in zip(words, annotation.text.split(" "), strict=True))


def _phrases(pair: Pair, made: StageRun) -> Iterator[str]:
    ends = PhraseColumns.open(made.outputs["phrases"]).values("ends", pair.line).tolist()
    yield _bracketed(_subwords(pair, made), ends)


def _chunks(pair: Pair, made: StageRun) -> Iterator[str]:
    columns = ChunkColumns.open(made.outputs["chunks"])
    subwords = _subwords(pair, made)
    _, *ends = columns.values("starts", pair.line).tolist()
    labels = [columns.description["labels"][label] for label in columns.values("labels", pair.line)]
    yield _bracketed(subwords, [*ends, len(subwords)], labels)


def _n_best(pair: Pair, made: StageRun) -> Iterator[str]:
    translated = Translations.parse(nth(made.outputs["translations"], pair.line))
    for rank, hypothesis in enumerate(translated.n_best, start=1):
        yield f"{rank}-best {hypothesis.subwords} ({hypothesis.score:.4f})"


def _cells(pair: Pair, made: StageRun) -> Iterator[str]:
    table = Table.read(made.outputs["table"])
    for block in table.blocks:
        if (block.dataset, block.test_set) == (pair.dataset, pair.split):
            for row in (row for row in block.rows if row.system == pair.system):
                printed = ((column.heading, row.printed(column)) for column in block.columns)
                yield f"{row.title}: {', '.join(f'{heading} {text}' for heading, text in printed if text)}"


_VIEWS: dict[str, Callable[[Pair, StageRun], Iterator[str]]] = {
    **{role: _line_of(role) for role in ("source", "target", "tokens", "subwords", "text")},
    "examples": _ids,
    "annotations": _annotation,
    "phrases": _phrases,
    "chunks": _chunks,
    "translations": _n_best,
    "table": _cells,
}


def _subwords(pair: Pair, made: StageRun) -> list[str]:
    """Return the positions of the side that a stage reads: subwords and the end of the sentence."""
    return [*filter(None, nth(made.inputs["subwords"][0], pair.line).split(" ")), _END]


def _bracketed(subwords: list[str], ends: list[int], labels: list[str] | None = None) -> str:
    spans = [" ".join(subwords[start:end]) for start, end in itertools.pairwise([0, *ends])]
    named = [f"{label} {span}" for label, span in zip(labels, spans, strict=True)] if labels else spans
    return " ".join(f"[{span}]" for span in named)


def draw(tree: Tree, words: list[str]) -> Iterator[str]:
    """Yield a line for every node, with the branches on the left; the line of a leaf has its word."""
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


def _chosen_pair(options: argparse.Namespace) -> Pair:
    """Return the pair that the command line names.

    Raises PhrasemtError when the pair does not exist, was dropped by cleaning, or is not prepared yet.
    """
    study, dataset = chosen_dataset(options)
    split, _, number = options.pair.partition(":")
    if not _ROW.fullmatch(number):
        raise PhrasemtError("not a pair", where=options.pair[:100], expected="SPLIT:ROW with rows from 1, e.g. test:17")
    split = choose("split", split, list(study.datasets[dataset].split_names))
    paths = Paths.of(study, dataset)
    finished_file(paths.examples.at(split=split), f"{split} is not prepared yet", options.study)
    system = None if options.system is None else choose("system", options.system, list(study.systems))
    if system is not None and system not in study.translating:
        next_step = "leave out --system to see the stages up to the examples"
        raise PhrasemtError("a language model does not translate", where=f"--system {system}", next_step=next_step)
    row = int(number) - 1
    line = _line_of_row(Path(paths.rows.at(split=split)), row)
    return Pair(study=study, dataset=dataset, paths=paths, split=split, row=row, line=line, system=system)


def nth(path: Path, line: int) -> str:
    """Return a line of a file. Lines count from 0. Raises DamagedFileError for a file with fewer lines."""
    found = next(itertools.islice(read_lines(path), line, None), None)
    if found is None:
        next_step = "delete it and run the study"
        raise DamagedFileError(
            "the file has too few lines", where=path, expected=f"more than {line}", next_step=next_step
        )
    return found


def _line_of_row(rows: Path, row: int) -> int:
    for line, text in enumerate(read_lines(rows)):
        if int(text) == row:
            return line
    dropped = DroppedPairs.read(Path(Sidecar.beside(rows).outputs["dropped"].path))
    for pair in dropped.dropped:
        if pair.row == row:
            raise PhrasemtError(
                "clean_pairs dropped this pair", where=f"row {row + 1}", found=f"{pair.filter} {pair.value}"
            )
    if dropped.left_out and row < dropped.raw_pairs:
        raise PhrasemtError("the sample of this data set leaves this pair out", where=f"row {row + 1}")
    raise PhrasemtError("no such row", where=rows, expected=f"1 to {dropped.raw_pairs}", found=row + 1)
