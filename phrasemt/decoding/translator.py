"""Translation of raw text by a trained system, as its study translates a test set.

Functions of the stages make tokens, subwords, packed examples, parses and phrases of the lines, in a temporary folder.
So the translation of a test set is the same, byte for byte, as the study's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phrasemt.artefacts.columns import Examples, Vocabularies
from phrasemt.artefacts.syntax import Card
from phrasemt.batching.reader import BatchReader
from phrasemt.decoding.beam import Ensemble, Hypothesis, translate_split
from phrasemt.decoding.forced import BATCH_POSITIONS, force, forced_sentences
from phrasemt.errors import DataError, MismatchError
from phrasemt.files.attention import ForcedSentence
from phrasemt.files.columns import RaggedArray
from phrasemt.files.lines import write_lines
from phrasemt.files.preprocessing import normalise_spaces
from phrasemt.models.interface import SearchableModel
from phrasemt.models.weights import load_model
from phrasemt.nn.precision import choose_device
from phrasemt.stages.syntax import ExtractPhrases
from phrasemt.study.schema import Decoding
from phrasemt.symbols import LONGEST_SENTENCE
from phrasemt.syntax.annotations import parser_tokens, sentence_key, write_annotations
from phrasemt.syntax.phrases import extract_phrases
from phrasemt.text.subwords import join_subwords, subword_cutter
from phrasemt.text.tokenize import line_detokenizer, line_tokenizer
from phrasemt.workflow.trained_system import TrainedSystem


@dataclass(frozen=True, slots=True)
class Candidate:
    """A translation. subwords: separated by spaces. score: what the search ranks by, natural logarithm."""

    text: str
    subwords: str
    score: float


@dataclass(frozen=True, slots=True)
class Translation:
    """The translations of a line, the best first. cut: whether the line was cut after `LONGEST_SENTENCE` subwords."""

    candidates: list[Candidate]
    cut: bool


class Translator:
    """A trained system in memory, or several, which translate together as an ensemble.

    It uses a GPU if torch sees one, else `cores` processes or threads. Raises the errors of damaged files and of files
    that do not belong together, and MismatchError for systems that cannot be an ensemble.
    """

    def __init__(self, *systems: TrainedSystem, decoding: Decoding, cores: int) -> None:
        # The first one decides what is read; systems without phrases read the batches of those with phrases, too.
        systems = tuple(sorted(systems, key=lambda system: system.settings.model.source_phrases is None))
        _check_together(systems)
        settings, files = systems[0].settings, systems[0].files
        self._decoding = decoding
        self._phrases = settings.model.source_phrases
        self._reads = settings.model.model_inputs
        self._tokenize = line_tokenizer(settings.source_tokenizer)
        self._detokenize = line_detokenizer(settings.target_tokenizer)
        self._tokenize_target = line_tokenizer(settings.target_tokenizer)
        self._cut: Callable[[str], str] = str
        self._cut_target: Callable[[str], str] = str
        if settings.vocabulary_threshold is not None:
            self._cut = subword_cutter(files["codes"], files["source_counts"], settings.vocabulary_threshold)
            self._cut_target = subword_cutter(files["codes"], files["target_counts"], settings.vocabulary_threshold)
        self._words = Vocabularies.read(files["source_vocabulary"], files["target_vocabulary"])
        self._parser = None
        if settings.reads_parses:
            from phrasemt.syntax.stanza.annotators import load_annotator  # imports Stanza

            self._parser = load_annotator(files["parser"]), Card.read(files["parser"])
        self._cores = cores
        device = choose_device(cores)
        models = [
            load_model(system.files["weights"], system.settings.model, self._words).to(device) for system in systems
        ]
        self._model = models[0]
        self._searched: SearchableModel[Any, Any] = models[0] if len(models) == 1 else Ensemble(models)

    def translate(
        self, lines: Sequence[str], *, on_progress: Callable[[int], object] = lambda sentences: None
    ) -> list[Translation]:
        """Translate lines of raw text, in order. A line without text has one translation, the empty one.

        Raises DamagedFileError for a parse that is not a tree over its sentence, DataError for a string.
        """
        if not lines:
            return []
        with tempfile.TemporaryDirectory(prefix="phrasemt-") as name:
            reader = self._prepare(lines, Path(name))
            lengths = reader.examples.source_lengths[np.arange(len(lines))]
            translated = translate_split(
                self._searched, reader, self._decoding, processes=self._cores, on_progress=on_progress
            )
        return [
            Translation([*map(self._candidate, hypotheses)], cut=bool(length > LONGEST_SENTENCE))
            for hypotheses, length in zip(translated, lengths, strict=True)
        ]

    def _candidate(self, hypothesis: Hypothesis) -> Candidate:
        subwords = " ".join(self._words.target.tokens(hypothesis.tokens))
        return Candidate(self._detokenize(join_subwords(subwords)), subwords, hypothesis.score)

    def force(
        self, sources: Sequence[str], targets: Sequence[str], *, attention: bool = False
    ) -> Iterator[ForcedSentence]:
        """Force lines of raw text as the targets of other lines, in order. attention: with the weights of all maps.

        A chunk-based decoder decides about chunks by itself.
        """
        if not sources:
            return
        with tempfile.TemporaryDirectory(prefix="phrasemt-") as name:
            reader = self._prepare(sources, Path(name), targets)
            results: dict[int, ForcedSentence] = {}
            for batch in reader.batches(1_000 if attention else BATCH_POSITIONS, self._model.device):
                forced = force(self._model, batch, attention=attention)
                whole = forced_sentences(forced, batch, rows=batch.rows, words=self._words)
                results |= {sentence.row: sentence for sentence in whole}
        yield from (results[row] for row in range(len(sources)))

    def _prepare(self, sources: Sequence[str], folder: Path, targets: Sequence[str] = ()) -> BatchReader:
        """The lines as a split: examples with the targets, if there are any, and the phrases that the model reads."""
        for given in (sources, targets):
            if isinstance(given, str):  # a sequence of characters
                raise DataError("one line in place of a list of lines", expected=[given], found=repr(given))
        lines = [normalise_spaces(line) for line in sources]
        rows, tokens, subwords, examples = (folder / name for name in ("rows", "tokens", "subwords", "examples.arrow"))
        tokenized = [self._tokenize(line) for line in lines]
        cut = [self._cut(line) for line in tokenized]
        write_lines(rows, map(str, range(len(lines))))
        write_lines(tokens, tokenized)
        write_lines(subwords, cut)
        source = RaggedArray.of([self._words.source.ids([*filter(None, line.split(" "))]) for line in cut])
        target = RaggedArray.of(self._target_ids(targets, len(lines)))
        batch = np.arange(len(lines)), dict(zip(Examples.sides, (source, target), strict=True))
        Examples.write(examples, (subwords, subwords), self._words, [batch])
        phrases = []
        if self._phrases is not None and self._phrases.has_columns:
            phrases = [folder / "phrases.arrow"]
            extract_phrases(
                settings=ExtractPhrases(segmentation=self._phrases, needs_parses=self._phrases.reads_parses),
                cores=1,
                rows=rows,
                tokens=tokens,
                subwords=subwords,
                parses=[self._parse(tokenized, folder / "parses.arrow")] if self._phrases.reads_parses else [],
                given=[],
                dropped=[],
                phrases=phrases[0],
            )
        return BatchReader(Examples.open(examples), self._reads, phrases)

    def _target_ids(self, targets: Sequence[str], count: int) -> Sequence[Sequence[int] | NDArray[np.int32]]:
        if not targets:
            return [()] * count
        cut = [self._cut_target(self._tokenize_target(normalise_spaces(line))) for line in targets]
        return [self._words.target.ids([*filter(None, line.split(" "))]) for line in cut]

    def _parse(self, tokenized: Sequence[str], parses: Path) -> Path:
        """Write the trees of lines of tokens, one for each distinct sentence."""
        assert self._parser is not None
        annotator, card = self._parser
        sentences = {sentence_key(tokens): tokens for tokens in map(parser_tokens, tokenized) if tokens}
        torch.set_num_threads(1)  # as in parse_sentences; more threads slow the parser down
        trees = annotator.annotate([*sentences.values()])
        torch.set_num_threads(self._cores)
        write_annotations(parses, [*sentences], trees, card.description)
        return parses


def _check_together(systems: Sequence[TrainedSystem]) -> None:
    """Raise MismatchError unless all systems can read one batch and share decisions. Vocabularies are checked later."""
    first = systems[0]
    for other in systems[1:]:
        ours, theirs = first.settings.model, other.settings.model
        if first.settings.model_copy(update={"model": theirs, "decoding": other.settings.decoding}) != other.settings:
            problem = "they have different languages, tokenisers or subwords"
        elif ours.reads_chunks or theirs.reads_chunks:
            problem = "chunk-based decoders would decide about different chunks of one translation"
        elif ours.source_begins_with_bos != theirs.source_begins_with_bos:
            problem = "some read `<s>` in front of sources (src_bos) and some do not"
        elif theirs.source_phrases not in (ours.source_phrases, None):
            problem = "they read different phrases of a source"
        else:
            continue
        what, next_step = f"these systems are no ensemble: {problem}", "translate with each of them"
        raise MismatchError(what, where=other.name, expected=first.name, next_step=next_step)
