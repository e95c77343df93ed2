"""The stage `score_contrasts`: how often a model prefers the right target to one with a single mistake.

Both targets are scored by forced decoding (LingEval97, Sennrich 2017). A pair counts as right when
log P(right) > log P(wrong), for whole sentences and without length normalisation. The accuracy is reported for all
pairs and by the distance between the two words that must agree.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.batching.reader import SourceCollator
from phrasemt.errors import DataError, MismatchError
from phrasemt.files.lines import read_lines, write_text
from phrasemt.models.weights import load_model
from phrasemt.search.device import choose_device
from phrasemt.search.forced import forced_scores
from phrasemt.stages.decoding import ScoreContrasts
from phrasemt.study.tokenization import Tokenizer
from phrasemt.text.subwords import subword_cutter
from phrasemt.text.tokenize import line_tokenizer
from phrasemt.text.vocab import Vocabulary

log = logging.getLogger("phrasemt.score_contrasts")

_HEADER = "row\tsource\tright\twrong\tdistance\tnumber"
# Groups of distances in words; Xu et al. (2020), Figure 4, print one limit only (docs/decisions.md, X18).
GROUPS = ((1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 15), (16, None))


@dataclass(frozen=True)
class _Pair:
    row: int
    source: str
    right: str
    wrong: str
    distance: int


def score_contrasts(
    *,
    settings: ScoreContrasts,
    cores: int,
    weights: Path,
    contrasts: Path,
    codes: list[Path],
    source_counts: list[Path],
    target_counts: list[Path],
    source_vocabulary: Path,
    target_vocabulary: Path,
    phrases: list[Path],
    accuracy: Path,
) -> None:
    """Write the accuracy for all pairs and by distance as JSON. A group without pairs has the accuracy null.

    contrasts: a file of pairs with the columns of `_HEADER`, separated by tabs.
    codes, source_counts, target_counts: files of subword segmentation, one each, or none for a model of whole words.
    phrases: phrase columns of the split that the pairs come from, or none for a model that does not read them.
    """
    device = choose_device(cores)
    source_words, target_words = Vocabulary.from_file(source_vocabulary), Vocabulary.from_file(target_vocabulary)
    model = load_model(weights, settings.model, source_words, target_words).to(device)
    pairs = _read(contrasts)

    def prepare(
        texts: Sequence[str], tokenizer: Tokenizer, counts: list[Path], words: Vocabulary
    ) -> list[NDArray[np.int32]]:
        lines = map(line_tokenizer(tokenizer), texts)
        if codes:
            lines = map(subword_cutter(codes[0], counts[0], settings.vocabulary_threshold), lines)
        return [words.ids([*filter(None, line.split(" "))]) for line in lines]

    sources = prepare([pair.source for pair in pairs], settings.source_tokenizer, source_counts, source_words)
    rights, wrongs = (
        prepare(texts, settings.target_tokenizer, target_counts, target_words)
        for texts in ([pair.right for pair in pairs], [pair.wrong for pair in pairs])
    )
    collate = SourceCollator(settings.reads, phrases)
    positions = _positions([pair.row for pair in pairs], collate)
    right_scores, wrong_scores = (
        forced_scores(model, collate, sources, targets, positions, device) for targets in (rights, wrongs)
    )
    preferred = right_scores > wrong_scores
    distances = np.array([pair.distance for pair in pairs])
    result = {
        "format": 1,
        "dataset": settings.dataset,
        "system": settings.system,
        "seed": settings.seed,
        "pairs": len(pairs),
        "accuracy": _share(preferred),
        "by_distance": [
            {"low": low, "high": high, "pairs": int(group.sum()), "accuracy": _share(preferred[group])}
            for low, high in GROUPS
            for group in [(distances >= low) & (distances <= (high or np.inf))]
        ],
    }
    write_text(accuracy, json.dumps(result, indent=1) + "\n")
    log.info("score_contrasts: %d pairs, accuracy %.3f", len(pairs), result["accuracy"] or 0.0)


def _read(path: Path) -> list[_Pair]:
    lines = read_lines(path)
    if (header := next(lines, "")) != _HEADER:
        raise DataError("not a file of contrastive pairs", where=path, expected=repr(_HEADER), found=repr(header))
    pairs = []
    for number, line in enumerate(lines, start=2):
        fields = line.split("\t")
        if len(fields) != 6 or not (fields[0].isdecimal() and fields[4].isdecimal() and int(fields[4]) > 0):
            raise DataError(
                "not a contrastive pair",
                where=f"{path}, line {number}",
                expected=f"{_HEADER!r}, with a distance of at least 1",
                found=repr(line[:80]),
                next_step="mend the line; words that stand side by side have the distance 1",
            )
        row, source, right, wrong, distance, _ = fields
        pairs.append(_Pair(row=int(row), source=source, right=right, wrong=wrong, distance=int(distance)))
    return pairs


def _positions(rows: Sequence[int], collate: SourceCollator) -> Sequence[int]:
    """Return the positions of rows in the phrase columns.

    Raises MismatchError for a row that the columns do not have.
    """
    if collate.phrases is None:
        return rows  # nobody reads these positions
    known = {row: position for position, row in enumerate(collate.phrases.rows.tolist())}
    if missing := [row for row in rows if row not in known]:
        raise MismatchError(
            "no phrases for the source of a contrastive pair",
            where=collate.phrases.path,
            found=f"no row {missing[0]}",
            next_step="run extract_phrases on the split that the pairs were made from",
        )
    return [known[row] for row in rows]


def _share(flags: NDArray[np.bool_]) -> float | None:
    return float(flags.mean()) if len(flags) else None
