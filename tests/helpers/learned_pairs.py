"""A few pairs that systems learn by heart."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from democorpus.pairs import conll, demo_pairs
from phrasemt.artefacts.columns import Vocabulary
from phrasemt.batching.pack import pack_examples
from phrasemt.files.lines import write_lines, write_text
from phrasemt.stages.subwords import BuildVocabulary, PackExamples
from phrasemt.stages.syntax import ExtractChunks
from phrasemt.syntax.chunks import extract_chunks
from phrasemt.text.subwords import build_vocabulary

PAIRS = 32


@dataclass(frozen=True)
class LearnedPairs:
    """A few short pairs of the demo's corpus, as whole words, with the chunks of their targets."""

    examples: Path
    chunks: Path
    reference: Path
    words: Vocabulary

    def __len__(self) -> int:
        return PAIRS


def learned_pairs(folder: Path) -> LearnedPairs:
    """The pairs with the fewest words among the first pairs of the demo's corpus, written into a folder."""
    drawn = sorted(demo_pairs(split="train", pairs=10 * PAIRS, seed=3), key=lambda pair: len(pair.target_tokens))
    drawn = drawn[:PAIRS]
    paths = {name: folder / name for name in ("rows", "source", "target")}
    write_lines(paths["rows"], map(str, range(PAIRS)))
    write_lines(paths["source"], (" ".join(pair.source_tokens) for pair in drawn))
    write_lines(paths["target"], (" ".join(pair.target_tokens) for pair in drawn))
    write_text(folder / "gold", "".join(conll(pair.target_tokens, pair.target_chunks) for pair in drawn))
    vocabularies = {name: folder / name for name in ("source_vocabulary", "target_vocabulary")}
    sides = {side: paths[side] for side in ("source", "target")}
    build_vocabulary(settings=BuildVocabulary(shared=True), cores=1, **sides, **vocabularies)
    pack_examples(settings=PackExamples(), cores=1, **paths, **vocabularies, examples=folder / "examples.arrow")
    extract_chunks(
        settings=ExtractChunks(origin="gold"),
        cores=1,
        rows=paths["rows"],
        tokens=paths["target"],
        subwords=paths["target"],
        gold=[folder / "gold"],
        tags=[],
        chunks=folder / "chunks.arrow",
        statistics=folder / "statistics.json",
    )
    words = Vocabulary.read(vocabularies["target_vocabulary"])
    return LearnedPairs(folder / "examples.arrow", folder / "chunks.arrow", paths["target"], words)
