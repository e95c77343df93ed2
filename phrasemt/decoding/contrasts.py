"""The stage `score_contrasts`: how often a model prefers the correct target to one with a single error.

Both targets are scored by forced decoding (LingEval97, Sennrich 2017). A pair counts as correct when
log P(right) > log P(wrong), for whole sentences and without length normalisation. Pairs are counted by error type
and by the distance between the two words that must agree (`count_preferred`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemt.artefacts.columns import Vocabularies, Vocabulary
from phrasemt.artefacts.corpus import Contrasts
from phrasemt.artefacts.translations import ContrastAccuracy, ContrastDecisions, DistanceCounts, KindCounts
from phrasemt.batching.reader import SourceCollator
from phrasemt.decoding.forced import forced_scores
from phrasemt.errors import MismatchError
from phrasemt.models.weights import load_model
from phrasemt.nn.precision import choose_device
from phrasemt.stages.decoding import ScoreContrasts
from phrasemt.study.tokenization import Tokenizer
from phrasemt.text.subwords import subword_cutter
from phrasemt.text.tokenize import line_tokenizer

log = logging.getLogger("phrasemt.score_contrasts")

# Groups of distances in words; Xu et al. (2020), Figure 4, print one limit only (docs/decisions.md, X18).
_GROUPS = ((1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 15), (16, None))


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
    """Write how many pairs of each error type and distance the model decides correctly, as JSON.

    contrasts: a table of `extract_contrasts` or of `generate_demo`.
    codes, source_counts, target_counts: files of subword segmentation, one each, or none for a model of whole words.
    phrases: phrase columns of the split that the pairs come from, or none for a model that does not read them.
    """
    words = Vocabularies.read(source_vocabulary, target_vocabulary)
    model = load_model(weights, settings.model, words).to(choose_device(cores))
    collate = SourceCollator(settings.reads, phrases)

    def prepare(
        texts: Sequence[str], tokenizer: Tokenizer, counts: list[Path], vocabulary: Vocabulary
    ) -> list[NDArray[np.int32]]:
        lines = map(line_tokenizer(tokenizer), texts)
        if codes:
            lines = map(subword_cutter(codes[0], counts[0], settings.vocabulary_threshold), lines)
        return [vocabulary.ids([*filter(None, line.split(" "))]) for line in lines]

    rows, pairs = Contrasts.read(contrasts)
    of_pairs = list(zip(rows, pairs, strict=True))
    # Each different line once: the row of a source in its split, its text, and a target.
    lines = [
        *dict.fromkeys((row, pair.source, target) for row, pair in of_pairs for target in (pair.right, pair.wrong))
    ]
    targets = prepare([target for *_, target in lines], settings.target_tokenizer, target_counts, words.target)
    read = dict(zip(lines, (ids.tobytes() for ids in targets), strict=True))
    alike = [pair for row, pair in of_pairs if read[row, pair.source, pair.right] == read[row, pair.source, pair.wrong]]
    if alike:
        log.warning(
            "score_contrasts: warning: %d of %d pairs differ only in what the vocabulary does not have, and count as "
            "wrong, such as %r and %r",
            len(alike), len(pairs), alike[0].right, alike[0].wrong,
        )  # fmt: skip
    log_probs = forced_scores(
        model,
        collate,
        prepare([text for _, text, _ in lines], settings.source_tokenizer, source_counts, words.source),
        targets,
        _positions([row for row, *_ in lines], collate),
    )
    scores = dict(zip(lines, log_probs.tolist(), strict=True))
    preferred = [scores[row, pair.source, pair.right] > scores[row, pair.source, pair.wrong] for row, pair in of_pairs]
    columns = [pair.kind for pair in pairs], [pair.distance for pair in pairs], preferred
    clusters = [pair.cluster or (pair.source, pair.right) for pair in pairs]
    result = ContrastAccuracy(
        dataset=settings.dataset,
        contrast_set=settings.contrast_set,
        system=settings.system,
        seed=settings.seed,
        kinds=count_preferred(*columns),
        decisions=decisions(*columns, clusters),
    )
    result.write(accuracy)
    log.info("score_contrasts: %d of %d pairs correct", result.total.right, result.total.pairs)


def decisions(
    kinds: Sequence[str], distances: Sequence[int | None], preferred: Sequence[bool], clusters: Sequence[Hashable]
) -> ContrastDecisions:
    """The decisions about pairs, with the arguments of `count_preferred`. clusters: the name of each pair's cluster."""
    return ContrastDecisions(
        kinds=_places(kinds),
        distances=list(distances),
        right=list(preferred),
        clusters=_places(clusters) if len({*clusters}) < len(clusters) else None,
    )


def _places(names: Sequence[Hashable]) -> list[int]:
    """The place of each name among the different ones."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return [places[name] for name in names]


def count_preferred(
    kinds: Sequence[str], distances: Sequence[int | None], preferred: Sequence[bool]
) -> list[KindCounts]:
    """Count pairs by kind, in the order of their first pairs, and by distance. preferred: the correct target won."""
    by_kind: dict[str, list[tuple[int, bool]]] = {}
    for kind, distance, wins in zip(kinds, distances, preferred, strict=True):
        by_kind.setdefault(kind, []).append((distance or 0, wins))
    return [
        KindCounts(
            kind=kind or "other",
            pairs=len(pairs),
            right=sum(wins for _, wins in pairs),
            by_distance=[
                DistanceCounts(low=low, high=high, pairs=len(group), right=sum(group))
                for low, high in _GROUPS
                if (group := [wins for distance, wins in pairs if low <= distance <= (high or math.inf)])
            ],
        )
        for kind, pairs in by_kind.items()
    ]


def _positions(rows: Sequence[int], collate: SourceCollator) -> Sequence[int]:
    """Return the positions of rows in the phrase columns.

    Raises MismatchError for a row that the columns do not have.
    """
    if collate.phrases is None:
        return rows  # a model without phrases reads no positions
    known = {row: position for position, row in enumerate(collate.phrases.rows.tolist())}
    if missing := [row for row in rows if row not in known]:
        what = "no phrases for the source of a contrastive pair"
        next_step = "run extract_phrases on the split that the pairs were made from"
        raise MismatchError(what, where=collate.phrases.path, found=f"no row {missing[0]}", next_step=next_step)
    return [known[row] for row in rows]
