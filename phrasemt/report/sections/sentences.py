"""The section "Sentences": an explorer of the test sets, with every system's output for each sentence.

The sentences of a test set travel as compressed JSON inside the page, and the script beside this module shows them. The
browser decompresses a test set when it is first looked at, and lays out only the sentences in view.

The sentence score is BLEU of the tokens as `sacrebleu --sentence-level` computes it: exponential smoothing, and no
n-grams that are longer than the translation (effective order). It is computed from the statistics in the score files.
"""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU

from phrasemt.artefacts.artefact import Pattern
from phrasemt.artefacts.columns import ChunkColumns, PhraseColumns
from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.scores import SystemScores
from phrasemt.artefacts.table import Table
from phrasemt.errors import check_equal
from phrasemt.files.attention import AXES, AttentionMap, ForcedSentence, read_forced
from phrasemt.files.columns import ColumnFile
from phrasemt.files.lines import read_lines
from phrasemt.files.system import digest_file
from phrasemt.report.page import Section, fill, text_of
from phrasemt.report.sections.analyses import PLACE_NAMES
from phrasemt.scoring.scores import CORRECT, REFERENCE_LENGTH, SYSTEM_LENGTH, TOTALS
from phrasemt.study.datasets import SIDES
from phrasemt.study.tokenization import Side
from phrasemt.symbols import BOS, EOS, SEPARATOR, SPECIAL_TOKENS, unescape
from phrasemt.syntax.annotations import Annotations, parser_tokens, sentence_key

# The convention whose statistics give the sentence scores; outputs and references are shown as its tokens.
METRIC = "bleu_tok"

TestSetName = tuple[str, str]  # data set and test set


@dataclass
class TestSetContent:
    """What is known of a test set; each list has an entry for each sentence."""

    source: list[str]
    reference: list[str]
    outputs: dict[str, list[str]] = field(default_factory=dict)  # by system
    scores: dict[str, list[float]] = field(default_factory=dict)
    trees: list[str] = field(default_factory=list)
    phrases: dict[str, list[list[str]]] = field(default_factory=dict)  # by segmentation
    chunks: list[list[tuple[str, str]]] = field(default_factory=list)  # label and words
    maps: dict[int, list[dict[str, Any]]] = field(default_factory=dict)  # by sentence, of each system


def sentences_section(table: Table, contents: Mapping[TestSetName, TestSetContent]) -> Section | None:
    """Make the section; None for a study without translations. contents: of `read_test_sets`."""
    titles = dict(table.systems)
    sets = []
    for number, ((dataset, test_set), content) in enumerate(contents.items()):
        if not content.outputs:
            continue
        text = json.dumps(_for_browser(content, titles, table.baseline), ensure_ascii=False, separators=(",", ":"))
        # Without a time, equal sentences give equal bytes.
        data = base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
        name = f"{dataset}, {test_set}"
        sets.append({"number": number, "name": name, "size": len(content.source), "data": data})
    if not sets:
        return None
    page = fill("sections/sentences.html", sets=sets, seed=table.seeds[0], seeds=len(table.seeds))
    return Section(anchor="sentences", heading="Sentences", content=page, script=text_of("sections/sentences.js"))


def read_test_sets(
    *,
    tokens: Sequence[Path],
    subwords: Sequence[Path],
    translated_tokens: Sequence[Path],
    system_scores: Sequence[Path],
    parses: Sequence[Path],
    phrase_columns: Sequence[Path],
    chunk_columns: Sequence[Path],
    attention_weights: Sequence[Path],
) -> dict[TestSetName, TestSetContent]:
    """Read the files of all test sets that the explorer shows.

    Systems are shown with the seed whose translations are among the files. Columns belong to the units that models
    read: subwords, or tokens of a data set that has none. Attention is known of some sentences.
    Raises MismatchError for columns of another text.
    """
    source, references = (
        {_place(Paths.tokens, path): path for path in of_side(Paths.tokens, tokens, side)} for side in SIDES
    )
    source_units, target_units = (
        words | {_place(Paths.subwords, path): path for path in of_side(Paths.subwords, subwords, side)}
        for side, words in zip(SIDES, (source, references), strict=True)
    )
    contents = {
        place: TestSetContent(list(read_lines(path)), list(read_lines(references[place])))
        for place, path in source.items()
    }
    runs = set()
    for path in translated_tokens:
        names = Paths.translated_tokens.names(path)
        runs.add((names["dataset"], names["system"], names["seed"]))
        contents[names["dataset"], names["split"]].outputs[names["system"]] = list(read_lines(path))
    for path in system_scores:
        names = Paths.system_scores.names(path)
        if (names["dataset"], names["system"], names["seed"]) in runs:
            for test_set, of_test_set in SystemScores.read(path).test_sets.items():
                rows = of_test_set.statistics[METRIC]
                contents[names["dataset"], test_set].scores[names["system"]] = list(map(sentence_bleu, rows))
    placed = sorted((_place(Paths.parses, path), path) for path in parses)
    for place, paths in itertools.groupby(placed, operator.itemgetter(0)):
        keys = [sentence_key(parser_tokens(line)) for line in contents[place].source]
        contents[place].trees = [
            (one.text if one else None) or "" for one in Annotations([path for _, path in paths]).find(keys)
        ]
    for path in phrase_columns:
        place = _place(Paths.phrase_columns, path)
        ends = _of_text(PhraseColumns.open(path), "source", source_units[place])
        contents[place].phrases[Paths.phrase_columns.names(path)["segmenter"]] = [
            _pieces(units, [0, *ends.values("ends", number).tolist()])
            for number, units in enumerate(_units(source_units[place]))
        ]
    for path in chunk_columns:
        place = _place(Paths.chunk_columns, path)
        columns = _of_text(ChunkColumns.open(path), "target", target_units[place])
        names_of_labels = columns.description["labels"]
        for number, units in enumerate(_units(target_units[place])):
            pieces = _pieces(units, [*columns.values("starts", number).tolist(), len(units)])
            labels = [names_of_labels[label] for label in columns.values("labels", number)]
            contents[place].chunks.append(list(zip(labels, pieces, strict=True)))
    for path in attention_weights:
        content, system = contents[_place(Paths.attention_weights, path)], Paths.attention_weights.names(path)["system"]
        for forced in read_forced(path):  # test sets keep all their pairs, so a row of the raw text is a place
            content.maps.setdefault(forced.row, []).append({"system": system, **_maps(forced)})
    return contents


def of_side(kind: Pattern, paths: Sequence[Path], side: Side) -> list[Path]:
    """The tokens or subwords of a side; of a monolingual data set both sides are one text."""
    names = [(path, kind.names(path)) for path in paths]
    return [path for path, name in names if name["language"] == name[side]]


def _maps(forced: ForcedSentence) -> dict[str, Any]:
    """Return the attention on a sentence pair by groups of heads; a byte is 255 times the root of a weight."""
    bounds = itertools.pairwise([0, *forced.phrase_ends])
    target = forced.target
    if forced.chunk_labels:  # the first word of a chunk has its label
        chunks = zip(forced.chunk_labels, forced.chunk_starts, target, strict=True)
        target = [f"{label} {token}" if start else token for label, start, token in chunks]
    axes = {
        "source": forced.source,
        "target": target,
        "phrases": [" ".join(forced.source[start:end]) for start, end in bounds],
    }
    attentions = []
    for one in forced.attentions:
        queries, keys = AXES[one.place]
        place = {"place": PLACE_NAMES[one.place], "layer": one.layer, "queries": queries, "keys": keys}
        if one.place == "dec_self":  # reads the words before the one that it predicts
            place["keys"] = "before"
        groups = []
        for name, weights_TNS in groups_of_heads(one):
            levels = np.rint(255 * np.sqrt(np.clip(weights_TNS, 0, 1))).astype(np.uint8)
            encoded = base64.b64encode(levels.tobytes()).decode()
            groups.append({"name": name, "shape": levels.shape, "levels": encoded})
        attentions.append({**place, "groups": groups})
    axes["before"] = [SPECIAL_TOKENS[BOS], *forced.target[:-1]]
    return {"axes": axes, "attentions": attentions}


def groups_of_heads(attention: AttentionMap) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield names of groups of heads with their mean weights [T, N, S].

    All heads; where there are n-grams, the heads that give tokens more of their weight on this sentence pair and those
    that give it to n-grams; of attention to the source, each head. Groups show two halves: tokens, and all n-grams of
    two or more tokens together (phrasal attention, Figures 2 and 3).
    """
    weights_hTNS = attention.weights_hTNS
    yield "mean over heads", weights_hTNS.mean(0)
    halves_hTNS = weights_hTNS
    if weights_hTNS.shape[2] > 1:
        halves_hTNS = np.stack([weights_hTNS[:, :, 0], weights_hTNS[:, :, 1:].sum(2)], axis=2)
        mass_hN = halves_hTNS.sum((1, 3))
        on_phrases_h = mass_hN[:, 1] > mass_hN[:, 0]
        for kind, chosen_h in (("tokens", ~on_phrases_h), ("n-grams", on_phrases_h)):
            if chosen_h.any():
                numbers = ", ".join(str(head + 1) for head in np.flatnonzero(chosen_h))
                yield f"heads on {kind} ({numbers})", halves_hTNS[chosen_h].mean(0)
    if attention.place == "cross":
        yield from ((f"head {number}", weights_TNS) for number, weights_TNS in enumerate(halves_hTNS, start=1))


def _of_text(columns: ColumnFile, side: str, text: Path) -> ColumnFile:
    """The columns, whose rows are the lines of this text. Raises MismatchError if they are not."""
    recorded, found = (f"sha256 {digest[:12]}" for digest in (columns.texts[side], digest_file(text)))
    where, next_step = f"{columns.path}, {text}", "delete the columns and run the study again"
    check_equal(recorded, found, "the columns belong to another text", where=where, next_step=next_step)
    return columns


def sentence_bleu(row: Sequence[float]) -> float:
    """Return the BLEU of a sentence, 0 to 100. row: its statistics in a score file."""
    score = BLEU.compute_bleu(
        list(row[CORRECT]),
        list(row[TOTALS]),
        row[SYSTEM_LENGTH],
        row[REFERENCE_LENGTH],
        smooth_method="exp",
        effective_order=True,
    )
    return float(score.score)


def _place(kind: Pattern, path: Path) -> TestSetName:
    names = kind.names(path)
    return names["dataset"], names["split"]


def _units(path: Path) -> Iterator[list[str]]:
    """Yield the positions that a model reads of each sentence: subwords or tokens, and the end of the sentence."""
    for line in read_lines(path):
        yield [*filter(None, line.split(" ")), SPECIAL_TOKENS[EOS]]


def _pieces(units: Sequence[str], bounds: Sequence[int]) -> list[str]:
    """Return the words of each piece; a hyphen ends a piece whose last word goes on in the next one."""
    pieces = (" ".join(units[start:end]) for start, end in itertools.pairwise(bounds))
    joined = (piece.replace(f"{SEPARATOR} ", "").replace(SEPARATOR, "‑") for piece in pieces)
    return [unescape(piece) for piece in joined]


def _for_browser(content: TestSetContent, titles: dict[str, str], baseline: str) -> dict[str, Any]:
    """Return the data that the script reads. Sentences are rows, so that equal words stand near each other."""
    systems = [name for name in titles if name in content.outputs]
    rows = []
    for number, (source, reference) in enumerate(zip(content.source, content.reference, strict=True)):
        row: dict[str, Any] = {
            "s": unescape(source),
            "r": unescape(reference),
            "o": [unescape(content.outputs[name][number]) for name in systems],
            "b": [round(content.scores[name][number], 1) for name in systems],
        }
        if content.trees:
            row["t"] = content.trees[number]
        if content.phrases:
            row["p"] = [phrases[number] for phrases in content.phrases.values()]
        if content.chunks:
            row["c"] = content.chunks[number]
        if number in content.maps:
            row["m"] = [{**one, "system": titles[one["system"]]} for one in content.maps[number]]
        rows.append(row)
    return {
        "systems": [titles[name] for name in systems],
        "baseline": systems.index(baseline) if baseline in systems else 0,
        "segmentations": list(content.phrases),
        "rows": rows,
    }
