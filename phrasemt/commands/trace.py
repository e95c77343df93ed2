"""`phrasemt trace`: show a sentence pair as text, tokens, subwords, parse, phrases and chunks, and its translation."""

from __future__ import annotations

import argparse
import difflib
import itertools
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from phrasemt.artefacts.artefact import Pattern
from phrasemt.artefacts.columns import ChunkColumns, PhraseColumns
from phrasemt.artefacts.corpus import DroppedPairs
from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.sidecar import Sidecar
from phrasemt.artefacts.translations import Translations
from phrasemt.commands._arguments import add_training, as_written, choose, chosen_dataset, finished_file, print_changes
from phrasemt.errors import DamagedFileError, PhrasemtError
from phrasemt.files.lines import read_lines
from phrasemt.study.schema import Study
from phrasemt.study.tokenization import Side
from phrasemt.syntax.annotations import Annotations, parser_tokens, sentence_key
from phrasemt.workflow.changes import changes_since

_ROW = re.compile(r"[1-9][0-9]{0,17}")
_COLUMNS = 100
_TRANSLATED = (Paths.translations, Paths.translated_text, Paths.translated_tokens)
View = tuple[str, str]  # a label and its text


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A pair that cleaning kept. row: its line in the raw text; line: in the files of its split. Both count from 0."""

    study: Study
    dataset: str
    split: str
    row: int
    line: int

    def path(self, kind: Pattern, **names: object) -> Path:
        """The file of a kind that has the pair."""
        source, target = self.study.datasets[self.dataset].languages
        of_dataset = {"study": self.study.study, "dataset": self.dataset, "source": source, "target": target}
        return Path(kind.within(split=self.split, **of_dataset, **names))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show one sentence pair after each stage, with parse and phrases; with --system its translation, too."
    )
    parser.add_argument("pair", metavar="SPLIT:ROW", help="such as test:17; rows of the raw text count from 1")
    add_training(parser)


def run(options: argparse.Namespace) -> None:
    """Print a pair after each step. Raises PhrasemtError when the pair or the translation does not exist."""
    pair = _chosen_pair(options)
    dataset = pair.study.datasets[pair.dataset]
    title, sections = f"{pair.dataset}, {pair.split}, line {pair.row + 1}", dict[str, list[View]]()
    for side in dataset.sides:
        language = dataset.languages[side == "target"]
        sections[f"{side} ({language})"] = list(of_side(pair, side, language))
    if options.system is not None:
        system, seed = _chosen_translation(options, pair)
        title += f", system {system}, seed {seed}"
        sections["output"] = list(of_output(pair, dataset.target_language, system=system, seed=seed))
    print_changes(changes_since(pair.study))
    print(f"{title}\n")
    width = 2 + max(len(label) for views in sections.values() for label, _ in views)
    for name, views in sections.items():
        print(name)
        for label, text in views:
            for number, line in enumerate(textwrap.wrap(text, _COLUMNS - width - 2, break_on_hyphens=False) or [""]):
                print(f"  {'' if number else label:<{width}}{line}".rstrip())


def of_side(pair: Pair, side: Side, language: str) -> Iterator[View]:
    """The raw line, then what each stage makes of it."""
    clean = pair.path(Paths.clean_text, language=language)
    raw = (Path(file.path) for file in Sidecar.beside(clean).inputs[f"raw_{side}"])
    yield "raw", (raw_text := nth(pair.row, *raw))
    if (text := nth(pair.line, clean)) != raw_text:
        yield "clean", text
    tokens, subwords = (nth(pair.line, pair.path(kind, language=language)) for kind in (Paths.tokens, Paths.subwords))
    yield "tokens", tokens
    yield "subwords", subwords
    positions = [*filter(None, subwords.split(" ")), "</s>"]
    if side == "source":
        yield from _parse(pair, tokens)
        for segmenter in pair.study.segmentations:
            if (path := pair.path(Paths.phrase_columns, segmenter=segmenter)).is_file():
                ends = PhraseColumns.open(path).values("ends", pair.line).tolist()
                yield f"phrases {segmenter}", _bracketed(positions, ends)
    elif (path := pair.path(Paths.chunk_columns)).is_file():
        columns = ChunkColumns.open(path)
        _, *ends = columns.values("starts", pair.line).tolist()
        labels = [columns.description["labels"][label] for label in columns.values("labels", pair.line)]
        yield "chunks", _bracketed(positions, [*ends, len(positions)], labels)


def _parse(pair: Pair, tokens: str) -> Iterator[View]:
    """The parse of the sentence, which is in the file of one of the jobs."""
    words = parser_tokens(tokens)
    pattern = pair.path(Paths.parses, annotator=pair.study.datasets[pair.dataset].source_parser, job="*")
    for path in sorted(Path().glob(str(pattern))) if words else ():
        (annotation,) = Annotations([path]).find([sentence_key(words)])
        if annotation is not None and annotation.text is not None:
            yield "parse", re.sub(r" (\d+)\)", lambda leaf: f" {words[int(leaf[1])]})", annotation.text)
        elif annotation is not None:
            yield "parse", f"none: {annotation.failure}"


def of_output(pair: Pair, language: str, *, system: str, seed: int) -> Iterator[View]:
    """The best translation, and the words in which it differs from the target."""
    names = {"system": system, "seed": seed}
    n_best, text, tokens = (pair.path(kind, **names) for kind in _TRANSLATED)
    if n_best.is_file():  # outputs of other programs have none
        best = Translations.parse(nth(pair.line, n_best)).n_best[0]
        yield "subwords", best.subwords
        yield "score", f"{best.score:.4f}"
    yield "text", nth(pair.line, text)
    target = pair.path(Paths.tokens, language=language)
    expected, translated = (nth(pair.line, path).split(" ") for path in (target, tokens))
    changes = difflib.SequenceMatcher(None, expected, translated, autojunk=False).get_opcodes()
    differs = [
        f"{' '.join(expected[i:j]) or '-'} -> {' '.join(translated[k:m]) or '-'}"
        for kind, i, j, k, m in changes
        if kind != "equal"
    ]
    yield "differs", "; ".join(differs) or "nowhere"


def _bracketed(subwords: list[str], ends: list[int], labels: list[str] | None = None) -> str:
    spans = [" ".join(subwords[start:end]) for start, end in itertools.pairwise([0, *ends])]
    named = [f"{label} {span}" for label, span in zip(labels, spans, strict=True)] if labels else spans
    return " ".join(f"[{span}]" for span in named)


def _chosen_pair(options: argparse.Namespace) -> Pair:
    """The pair of the command line. Raises PhrasemtError when it does not exist, was dropped or is not prepared yet."""
    study, dataset = chosen_dataset(options)
    split, _, number = options.pair.partition(":")
    if not _ROW.fullmatch(number):
        raise PhrasemtError("not a pair", where=options.pair[:100], expected="SPLIT:ROW with rows from 1, e.g. test:17")
    split = choose("split", split, list(study.datasets[dataset].split_names))
    paths, row = Paths.of(study, dataset), int(number) - 1
    finished_file(paths.examples.at(split=split), f"{split} is not prepared yet", options.study)
    return Pair(
        study=study, dataset=dataset, split=split, row=row, line=_line_of(Path(paths.rows.at(split=split)), row)
    )


def _chosen_translation(options: argparse.Namespace, pair: Pair) -> tuple[str, int]:
    """The system and the seed. Raises PhrasemtError for a system that does not translate or has not translated yet."""
    system = choose("system", options.system, list(pair.study.systems))
    if system not in pair.study.translating:
        next_step = "leave out --system to see the pair up to its subwords"
        raise PhrasemtError("a language model does not translate", where=f"--system {system}", next_step=next_step)
    seed = pair.study.seeds_of(system)[0] if options.seed is None else options.seed
    path = pair.path(Paths.translated_tokens, system=system, seed=seed)
    finished_file(path, f"not translated with seed {seed} yet", options.study)
    return system, seed


def nth(line: int, *paths: Path) -> str:
    """Return a line of a text in some files, from 0. Raises DamagedFileError for fewer lines, and as `as_written`."""
    lines = itertools.chain.from_iterable(read_lines(as_written(path)) for path in paths)
    if (found := next(itertools.islice(lines, line, None), None)) is None:
        what, expected = "the text has too few lines", f"more than {line}"
        raise DamagedFileError(what, where=paths[-1], expected=expected, next_step="run the study again")
    return found


def _line_of(rows: Path, row: int) -> int:
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
