"""Translation of raw text is what the stages of a study make of the same text, byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch

from democorpus.pairs import demo_pairs
from phrasemt.artefacts.columns import Vocabularies, Vocabulary
from phrasemt.batching.pack import pack_examples
from phrasemt.corpus.clean import clean_pairs
from phrasemt.decoding.translate import translate_examples
from phrasemt.decoding.translator import Translator
from phrasemt.errors import DataError, MismatchError
from phrasemt.files.lines import read_lines, write_lines
from phrasemt.models.interface import build_model
from phrasemt.models.weights import describe_weights, save_tensors, weights_of
from phrasemt.stages.corpus import CleanPairs
from phrasemt.stages.decoding import TranslateExamples
from phrasemt.stages.subwords import ApplySubwords, BuildVocabulary, LearnSubwords, PackExamples, TokenizeText
from phrasemt.stages.syntax import ExtractPhrases, ParseSentences
from phrasemt.study.architectures import (
    Architecture,
    BiscaleModel,
    PhraseRepresentationModel,
    PhraseSegmentation,
    TransformerModel,
)
from phrasemt.study.schema import Decoding
from phrasemt.study.tokenization import Tokenizer
from phrasemt.syntax.annotate import parse_sentences
from phrasemt.syntax.phrases import extract_phrases
from phrasemt.text.subwords import apply_subwords, build_vocabulary, learn_subwords
from phrasemt.text.tokenize import tokenize_text
from phrasemt.workflow.trained_system import SystemSettings, TrainedSystem

SIZE = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "ffn_width": 24}
RECURRENT = {"embedding": 8, "hidden": 8}
FAMILIES: dict[str, Architecture] = {
    "transformer": TransformerModel(**SIZE),
    "phrases of n tokens": PhraseRepresentationModel(**SIZE),
    "phrases of Neutron": PhraseRepresentationModel(
        **SIZE, phrase=PhraseSegmentation(ntok_scope="batch"), src_bos=True
    ),
    "random phrases": PhraseRepresentationModel(**SIZE, phrase=PhraseSegmentation(mode="random")),
    "phrases of a parser": PhraseRepresentationModel(**SIZE, phrase=PhraseSegmentation(mode="parse")),
    "bi-scale": BiscaleModel(family="biscale", **RECURRENT, chunk_hidden=8, chunk_embedding=8),
}
DECODING = Decoding(beam=3, n_best=2, max_length_factor=0.02, max_length_extra=6)
# What people type and paste: no text, white space of Unicode, control characters, special symbols, a line that is cut.
UGLY = [
    "",
    "  \t ",
    "a\u2028b\x85c\r",
    "zero\x00byte",
    "</s> <s> <unk> <pad> @@ a@@ b@@",
    "漢字 \U0001f600 ſ",
    "“quoted” isn’t &amp; [x] | 3,14",
    "word " * 1_100,
]


class Texts:
    """A data set of one test split, and what the stages make of it. Files are made when they are first asked for."""

    def __init__(self, folder: Path, parser: Path) -> None:
        self.folder, self.parser = folder, parser
        self.tokenizers = {"source": Tokenizer.for_language("en"), "target": Tokenizer.for_language("de")}
        pairs = [*demo_pairs(split="train", pairs=40, seed=3)]
        for side in ("source", "target"):
            write_lines(folder / f"train.{side}", (getattr(pair, side) for pair in pairs))
            self._tokenize("train", side)
        self.lines = [pair.source for pair in pairs[:6]] + UGLY
        Random(1).shuffle(self.lines)
        write_lines(folder / "raw.source", self.lines)
        write_lines(folder / "raw.target", ["ja"] * len(self.lines))
        clean_pairs(
            settings=CleanPairs(source_language="en", target_language="de", filters=None),
            cores=1,
            raw_source=[folder / "raw.source"],
            raw_target=[folder / "raw.target"],
            source=folder / "test.source",
            target=folder / "test.target",
            rows=folder / "rows",
            dropped=folder / "dropped",
        )
        trains = {side: folder / f"train.{side}.tokens" for side in self.tokenizers}
        counts = {f"{side}_counts": folder / f"{side}.counts" for side in self.tokenizers}
        learn_subwords(settings=LearnSubwords(merges=60), cores=1, **trains, codes=folder / "codes", **counts)
        for split in ("train", "test"):
            for side in self.tokenizers:
                self._tokenize(split, side)
                apply_subwords(
                    settings=ApplySubwords(vocabulary_threshold=2),
                    cores=1,
                    tokens=folder / f"{split}.{side}.tokens",
                    codes=folder / "codes",
                    counts=folder / f"{side}.counts",
                    subwords=folder / f"{split}.{side}.subwords",
                )
        self.vocabularies = {f"{side}_vocabulary": folder / f"{side}.vocabulary" for side in self.tokenizers}
        sides = {side: folder / f"train.{side}.subwords" for side in self.tokenizers}
        build_vocabulary(settings=BuildVocabulary(shared=True), cores=1, **sides, **self.vocabularies)
        sides = {side: folder / f"test.{side}.subwords" for side in self.tokenizers}
        self.examples = folder / "examples"
        pack_examples(
            settings=PackExamples(), cores=1, rows=folder / "rows", **sides, **self.vocabularies, examples=self.examples
        )

    def _tokenize(self, split: str, side: str) -> None:
        tokenize_text(
            settings=TokenizeText(tokenizer=self.tokenizers[side]),
            cores=1,
            text=self.folder / f"{split}.{side}",
            tokens=self.folder / f"{split}.{side}.tokens",
            round_trip=self.folder / "round_trip",
        )

    def phrases(self, segmentation: PhraseSegmentation | None) -> list[Path]:
        if segmentation is None or segmentation.mode == "ngram":
            return []
        tokens, parses = self.folder / "test.source.tokens", self.folder / "parses"
        if segmentation.reads_parses:
            parse_sentences(
                settings=ParseSentences(job=0, jobs=1),
                cores=1,
                tokens=tokens,
                annotator=self.parser,
                annotations=parses,
                cache=self.folder / "cache",
            )
        phrases = self.folder / f"phrases.{segmentation.mode}"
        extract_phrases(
            settings=ExtractPhrases(segmentation=segmentation, needs_parses=segmentation.reads_parses),
            cores=1,
            rows=self.folder / "rows",
            tokens=tokens,
            subwords=self.folder / "test.source.subwords",
            parses=[parses] if segmentation.reads_parses else [],
            given=[],
            dropped=[],
            phrases=phrases,
        )
        return [phrases]

    def system(self, model: Architecture) -> TrainedSystem:
        """A system with random weights, scaled up so that translations differ from each other."""
        words = Vocabulary.read(self.vocabularies["source_vocabulary"])
        torch.manual_seed(4)
        built = build_model(model, source_vocabulary=len(words), target_vocabulary=len(words))
        with torch.no_grad():
            for parameter in built.parameters():
                parameter.mul_(2.0)
        weights = self.folder / "weights.safetensors"
        save_tensors(weights, weights_of(built), describe_weights(model, Vocabularies(words, words)))
        settings = SystemSettings(
            source_language="en",
            target_language="de",
            model=model,
            decoding=DECODING,
            source_tokenizer=self.tokenizers["source"],
            target_tokenizer=self.tokenizers["target"],
            vocabulary_threshold=2,
        )
        counts = {f"{side}_counts": self.folder / f"{side}.counts" for side in self.tokenizers}
        files = {"weights": weights, "codes": self.folder / "codes", **self.vocabularies, **counts}
        if settings.reads_parses:
            files["parser"] = self.parser
        return TrainedSystem("toy", settings, files)

    def translated_by_the_stage(self, model: Architecture) -> tuple[list[str], list[dict]]:
        outputs = {name: self.folder / f"translated.{name}" for name in ("translations", "tokens", "text")}
        translate_examples(
            settings=TranslateExamples(
                model=model, reads=model.model_inputs, decoding=DECODING, target_tokenizer=self.tokenizers["target"]
            ),
            cores=1,
            weights=self.folder / "weights.safetensors",
            examples=self.examples,
            **self.vocabularies,
            phrases=self.phrases(model.source_phrases),
            **outputs,
        )
        return list(read_lines(outputs["text"])), [json.loads(line) for line in read_lines(outputs["translations"])]


@pytest.fixture(scope="module")
def texts(tmp_path_factory, tiny_annotators):
    return Texts(tmp_path_factory.mktemp("texts"), tiny_annotators.parser)


@pytest.mark.parametrize("model", FAMILIES.values(), ids=FAMILIES)
def test_raw_text_is_translated_as_in_the_study(model, texts):
    system = texts.system(model)
    lines, searched = texts.translated_by_the_stage(model)
    found = Translator(system, decoding=DECODING, cores=1).translate(texts.lines)
    assert [one.candidates[0].text for one in found] == lines
    for one, entry in zip(found, searched, strict=True):
        assert [(candidate.subwords, candidate.score) for candidate in one.candidates] == [
            (candidate["subwords"], candidate["score"]) for candidate in entry["n_best"]
        ]
    blank = [number for number, line in enumerate(texts.lines) if not line.strip()]
    assert [lines[number] for number in blank] == [""] * len(blank)
    assert [one.cut for one in found] == [len(line) > 5_000 for line in texts.lines]
    assert len(set(lines)) > 5, "the sentences have different translations"


def test_systems_translate_together(texts, tmp_path):
    """A system beside itself has its own probabilities; one that reads other phrases is refused."""
    system = texts.system(FAMILIES["phrases of a parser"])
    alone = Translator(system, decoding=DECODING, cores=1).translate(texts.lines)
    together = Translator(system, system, decoding=DECODING, cores=1).translate(texts.lines)
    assert [one.candidates[0].text for one in together] == [one.candidates[0].text for one in alone]
    for one, other in zip(together, alone, strict=True):  # float32
        assert one.candidates[0].score == pytest.approx(other.candidates[0].score, abs=1e-5)
    phrases = system.settings.model.phrase.model_copy(update={"mode": "right"})
    model = system.settings.model.model_copy(update={"phrase": phrases})
    other = replace(system, settings=system.settings.model_copy(update={"model": model}))
    with pytest.raises(MismatchError, match="these systems are no ensemble: they read different phrases of a source"):
        Translator(system, other, decoding=DECODING, cores=1)


def test_a_string_is_no_list_of_lines(texts):
    """It is a sequence of characters, each of which would be translated."""
    translator = Translator(texts.system(FAMILIES["phrases of a parser"]), decoding=DECODING, cores=1)
    line = texts.lines[0]
    for call in (
        lambda: translator.translate(line),
        lambda: [*translator.force(line, [line])],
        lambda: [*translator.force([line] * len(line), line)],
    ):
        with pytest.raises(DataError, match="one line in place of a list of lines"):
            call()
