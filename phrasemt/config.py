"""The study: everything an experiment says about itself, typed, with allowed values, default, unit and description.

A study file is complete in itself. Unknown keys are errors; all mistakes of a file are reported at once. What concerns
the machine (cores, memory, GPUs, the micro-batch that fits) is not part of a study: it lives in the profiles and never
changes a result. `workflow/schemas/study.schema.json` is generated from this module (`phrasemt schema`).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag, model_validator

# Names become folder names and Snakemake wildcards, so no separators and nothing a shell or a pattern could read.
Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_+-]*$")]
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Probability = Annotated[float, Field(ge=0, lt=1)]


class Settings(BaseModel):
    """Base of every section: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def canonical_json(self) -> str:
        """The same text for equal settings, whatever their order in the file: the stuff of digests and rerun keys."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


# ---------------------------------------------------------------------------------------------------------------- data


class RegistryText(Settings):
    """A part of a corpus of the registry (`phrasemt corpora` lists them)."""

    corpus: Name = Field(description="id in the registry")
    part: Name = Field(description="part of that corpus, e.g. train")


class UserText(Settings):
    """Two parallel text files of the user, UTF-8, one sentence per line; `.gz` is unpacked."""

    source: Path = Field(description="file with the source side")
    target: Path = Field(description="file with the target side")


def kind_of_text(value: Any) -> str:
    """Decides by the keys, so that a mistake is reported against the kind that was meant."""
    keys = value if isinstance(value, dict) else vars(value) if isinstance(value, Settings) else {}
    return "files" if "source" in keys or "target" in keys else "registry"


ParallelText = Annotated[
    Annotated[RegistryText, Tag("registry")] | Annotated[UserText, Tag("files")], Discriminator(kind_of_text)
]


class Splits(Settings):
    """Ready-made splits. Several texts for one split are read one after the other."""

    train: list[ParallelText] = Field(min_length=1, description="training texts")
    dev: list[ParallelText] = Field(min_length=1, description="development set: early stopping")
    test: dict[Name, list[ParallelText]] = Field(min_length=1, description="test sets by name")

    @model_validator(mode="after")
    def _names_are_free(self) -> Splits:
        if taken := {"train", "dev"} & set(self.test):
            raise ValueError(f"a test set cannot be named {sorted(taken)[0]}")
        return self


class Partition(Settings):
    """One corpus cut into train, dev and test so that no sentence of one side stands in two of them."""

    text: ParallelText = Field(description="the corpus to cut")
    dev: int = Field(gt=0, description="pairs for dev")
    test: int = Field(gt=0, description="pairs for test")
    seed: Seed = Field(1, description="seed of the draw")


class Generator(Settings):
    """The corpus made by the project itself (phrasemt/corpus/demo.py), with gold trees, chunks and contrasts."""

    train: int = Field(gt=0, description="training pairs")
    dev: int = Field(gt=0, description="dev pairs")
    test: int = Field(gt=0, description="test pairs")
    seed: Seed = Field(1, description="seed of the generator")


class Cleaning(Settings):
    """Filters on training pairs. Dev and test sets are never filtered: scores are about all of their sentences."""

    max_words: int = Field(
        100, gt=0, description="longest side kept, in words between spaces (zh, ja, ...: two characters a word)"
    )
    max_ratio: float = Field(9.0, ge=1, description="longest side / shortest side in words, at most")
    min_letters: Probability = Field(
        0.5, description="smallest share of letters of the language's script among all letters of a line"
    )
    drop_duplicates: bool = Field(True, description="keep only the first of equal pairs")
    drop_identical: bool = Field(True, description="drop pairs whose two sides are equal")


class Tokenization(Settings):
    """Moses tokens (sacremoses)."""

    aggressive_dash: bool = Field(False, description="Moses' -a: a hyphen between letters becomes @-@")


class Subwords(Settings):
    """Joint byte-pair encoding (subword-nmt)."""

    merges: int = Field(32_000, gt=0, description="merge operations, learned on both sides together")
    vocabulary_threshold: int = Field(
        8, ge=0, description="subwords seen less often in their language's training text are split further; 0: never"
    )
    shared_vocabulary: bool = Field(True, description="one vocabulary for both sides (needed by tie: all)")


class AnnotatedText(Settings):
    """Sentences with trees or chunks to learn from: of the registry, of a generated data set, or a file of the user."""

    corpus: Name | None = Field(None, description="id in the registry, e.g. treebank")
    part: Name | None = Field(None, description="part of that corpus, e.g. train")
    generated: Name | None = Field(None, description="data set of this study that has a generator: its gold annotation")
    split: Literal["train", "dev", "test"] | None = Field(None, description="split of the generated data set")
    file: Path | None = Field(None, description="file of the user: bracketed trees, or CoNLL-2000 columns")

    @model_validator(mode="after")
    def _one_origin(self) -> AnnotatedText:
        given = {name for name in ("corpus", "part", "generated", "split", "file") if getattr(self, name) is not None}
        if given not in ({"corpus", "part"}, {"generated", "split"}, {"file"}):
            raise ValueError("give either corpus and part, or generated and split, or file")
        return self


class AnnotatorTraining(Settings):
    """What a parser or chunker is trained on. Sizes and budgets are those of a small model; see docs/syntax.md."""

    train: list[AnnotatedText] = Field(min_length=1, description="sentences to learn from")
    dev: list[AnnotatedText] = Field(
        [], description="sentences that choose the best epoch; empty: every twelfth one of train, held out"
    )
    test: list[AnnotatedText] = Field(min_length=1, description="sentences whose F1 is reported with the model")
    sentences: int | None = Field(None, gt=0, description="learn from the first so many sentences only; null: all")
    vectors: int = Field(100, ge=0, description="width of the word vectors, learned from train and text; 0: none")
    text: list[AnnotatedText] = Field([], description="more text, without annotation, for the word vectors")
    hidden: int = Field(128, gt=0, description="width of the LSTM states")
    seed: Seed = Field(1234, description="seed of the initial weights")


class ParserTraining(AnnotatorTraining):
    """A parser of our own: an XPOS tagger and a constituency parser on bracketed trees."""

    tagger_updates: int = Field(2400, gt=0, description="updates of the tagger, 32 sentences each")
    epochs: int = Field(20, gt=0, description="passes of the parser over the trees")


class ChunkerTraining(AnnotatorTraining):
    """A chunker of our own: a sequence tagger on CoNLL-2000 columns."""

    updates: int = Field(2400, gt=0, description="updates, 32 sentences each")


class ParserFiles(Settings):
    """Stanza model files of the user."""

    constituency: Path = Field(description="constituency parser (.pt)")
    tagger: Path | None = Field(None, description="part-of-speech tagger (.pt); none if the parser reads no tags")
    vectors: Path = Field(description="word vectors that both were trained with (.pt)")
    forward_charlm: Path | None = Field(None, description="forward character model, if they were trained with one")
    backward_charlm: Path | None = Field(None, description="backward character model, if they were trained with one")


class ChunkerFiles(Settings):
    """Stanza model files of the user."""

    chunker: Path = Field(description="sequence tagger for chunks (.pt), made with Stanza's ner_tagger")
    vectors: Path = Field(description="word vectors that it was trained with (.pt)")


class Annotator(Settings):
    """What parsers and chunkers have in common."""

    language: Language = Field(description="ISO 639 code, e.g. en")

    @property
    def texts(self) -> list[tuple[str, AnnotatedText]]:
        """The texts it is trained on, each with its place in the study."""
        training: AnnotatorTraining | None = getattr(self, "train", None)
        if training is None:
            return []
        return [
            (f"train.{part}.{number}", text)
            for part in ("train", "dev", "test", "text")
            for number, text in enumerate(getattr(training, part))
        ]


class Parser(Annotator):
    """A constituency parser. Exactly one of train, files, published."""

    train: ParserTraining | None = Field(None, description="trained by the workflow")
    files: ParserFiles | None = Field(None, description="model files of the user")
    published: Name | None = Field(None, description="one of Stanza's published packages, e.g. ptb3-revised_charlm")

    @model_validator(mode="after")
    def _one_origin(self) -> Parser:
        if sum(origin is not None for origin in (self.train, self.files, self.published)) != 1:
            raise ValueError("exactly one of train, files and published must be given")
        return self


class Chunker(Annotator):
    """A chunk tagger. Exactly one of train, files."""

    train: ChunkerTraining | None = Field(None, description="trained by the workflow")
    files: ChunkerFiles | None = Field(None, description="model files of the user")

    @model_validator(mode="after")
    def _one_origin(self) -> Chunker:
        if (self.train is None) == (self.files is None):
            raise ValueError("exactly one of train and files must be given")
        return self


class TargetChunks(Settings):
    """The chunks of the target side (Zhou et al. 2017). What `origin` does not name is only compared with it."""

    origin: Literal["gold", "chunker", "parser"] = Field(
        description="gold: the generator's own; chunker: a tagger; parser: rules on English trees"
    )
    chunker: Name | None = Field(None, description="a chunk tagger of the study")
    parser: Name | None = Field(None, description="a parser of the study")

    @model_validator(mode="after")
    def _origin_is_named(self) -> TargetChunks:
        if self.origin != "gold" and getattr(self, self.origin) is None:
            raise ValueError(f"origin is {self.origin!r}, but {self.origin} names none")
        return self


class Dataset(Settings):
    """A language pair with its texts and how they are prepared. Exactly one of splits, partition, generator."""

    source_language: Language = Field(description="ISO 639 code, e.g. en")
    target_language: Language = Field(description="ISO 639 code, e.g. de")
    splits: Splits | None = Field(None, description="ready-made splits")
    partition: Partition | None = Field(None, description="one corpus to be cut")
    generator: Generator | None = Field(None, description="the project's own corpus")
    cleaning: Cleaning = Field(default_factory=Cleaning, description="filters on training pairs")
    tokenization: Tokenization = Field(default_factory=Tokenization, description="Moses options")
    subwords: Subwords = Field(default_factory=Subwords, description="byte-pair encoding")
    source_parser: Name | None = Field(None, description="parser of the study that parses the source side")
    target_chunks: TargetChunks | None = Field(None, description="chunks of the target side")
    parse_jobs: int = Field(
        1, gt=0, le=64, description="jobs that the sentences to be parsed or tagged are spread over; changes no result"
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Dataset:
        if sum(origin is not None for origin in (self.splits, self.partition, self.generator)) != 1:
            raise ValueError("exactly one of splits, partition and generator must be given")
        if self.source_language == self.target_language:
            raise ValueError("source_language and target_language must differ: their files stand side by side")
        return self

    @property
    def languages(self) -> tuple[str, str]:
        return self.source_language, self.target_language

    @property
    def test_sets(self) -> tuple[str, ...]:
        return tuple(self.splits.test) if self.splits else ("test",)


# -------------------------------------------------------------------------------------------------------------- models


class PhraseSegmentation(Settings):
    """Where the source phrases of Xu et al. end (science 1.3, X1-X3). L counts encoder positions, `</s>` included.

    n = max(min(ntok_max, L/ntok_div), ntok_min) is the length of n-gram phrases and the limit of those cut from trees.
    """

    mode: Literal["ngram", "parse", "random", "right", "shuffled", "given"] = Field(
        "ngram",
        description="ngram: n tokens each; parse: Algorithm 1 on parses; random, right: Algorithm 1 on random binary "
        "and right-branching trees; shuffled: phrases of parse in random order of their lengths; given: of the user",
    )
    ntok_div: int = Field(6, gt=0, description="phrases per sentence that L is divided into")
    ntok_min: int = Field(3, gt=0, description="smallest phrase length, tokens")
    ntok_max: int = Field(8, gt=0, description="largest phrase length, tokens")
    ntok_round: Literal["ceil", "floor"] = Field("ceil", description="rounding of L/ntok_div")
    parse_unit: Literal["subword", "word"] = Field("subword", description="what n counts in trees (science 6.4)")
    seed: Seed = Field(1, description="seed of the modes random and shuffled")
    given: Path | None = Field(
        None,
        description="mode given: folder with <dataset>/<split>.txt, the ends of phrases in words for each raw pair",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> PhraseSegmentation:
        if self.ntok_min > self.ntok_max:
            raise ValueError(f"ntok_min ({self.ntok_min}) must not exceed ntok_max ({self.ntok_max})")
        if (self.mode == "given") != (self.given is not None):
            raise ValueError("the folder `given` belongs to mode: given, and only to it")
        for key, modes in (("seed", ("random", "shuffled")), ("parse_unit", ("parse", "random", "right", "shuffled"))):
            if self.mode not in modes and getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"{key} has no effect in mode {self.mode}, only in {', '.join(modes)}")
        return self

    @property
    def needs_parses(self) -> bool:
        return self.mode in ("parse", "shuffled")

    @property
    def name(self) -> str:
        """The mode and every option that is not at its default: names the phrase columns of this segmentation."""
        options = [
            f"{key}-{value}"
            for key, value in self.model_dump(mode="json", exclude={"mode", "given"}, exclude_defaults=True).items()
        ]
        folder = [re.sub(r"[^a-zA-Z0-9.+-]", "-", self.given.name)] if self.given else []
        return "_".join([self.mode, *folder, *options])


class TransformerModel(Settings):
    """Transformer (Vaswani et al. 2017); science 1.0 and 1.1. Base is the default."""

    family: Literal["transformer"] = Field("transformer", description="model family, phrasemt/models/<family>.py")
    encoder_layers: int = Field(6, gt=0, description="encoder layers N")
    decoder_layers: int = Field(6, gt=0, description="decoder layers N")
    width: int = Field(512, gt=0, description="model width d")
    heads: int = Field(8, gt=0, description="attention heads h; d/h is the head width")
    ffn_width: int = Field(2048, gt=0, description="inner width f of the feed-forward networks")
    dropout: Probability = Field(0.1, description="on embeddings and on each sub-layer's output")
    attn_dropout: Probability = Field(0.1, description="on attention weights")
    act_dropout: Probability = Field(0.1, description="on the feed-forward activation")
    norm: Literal["post", "pre"] = Field("post", description="layer normalisation after (Vaswani, Xu) or before (T2T)")
    embed_ln: bool = Field(False, description="layer normalisation of the embeddings (Neutron)")
    tie: Literal["decoder", "all"] = Field(
        "decoder", description="decoder: softmax = target table; all: source table too (one shared vocabulary)"
    )
    softmax_bias: bool = Field(True, description="bias of the output layer (Neutron true, T2T false)")

    @model_validator(mode="after")
    def _heads_divide_width(self) -> TransformerModel:
        if self.width % self.heads:
            raise ValueError(f"width ({self.width}) must be a multiple of heads ({self.heads})")
        return self

    @property
    def source_phrases(self) -> PhraseSegmentation | None:
        """The segmentation that batches must carry, None for models without phrases."""
        return None


class PhraseRepresentationModel(TransformerModel):
    """Transformer with source phrase representations (Xu et al. 2020); science 1.3."""

    family: Literal["phrase_representation"] = Field(  # type: ignore[assignment]
        "phrase_representation", description="model family, phrasemt/models/<family>.py"
    )
    phrase: PhraseSegmentation = Field(default_factory=PhraseSegmentation, description="source phrases")
    glance: Literal["max", "mean"] = Field("max", description="element-wise summary of a phrase's tokens (eq. 2)")
    pool: Literal["glance", "attn"] = Field(
        "glance",
        description="glance: the summary itself (+Max, +Mean); attn: attention over the tokens (+Attn, eq. 3-5)",
    )
    ta: Literal["off", "on"] = Field("off", description="+TA: each decoder layer mixes all encoder levels (eq. 6)")
    combine_hidden: float = Field(3.0, gt=0, description="width of the attentive combination, multiples of d (X8)")
    score_hidden: float = Field(1.0, gt=0, description="width of the token scorer of +Attn, multiples of d (X9)")

    @property
    def source_phrases(self) -> PhraseSegmentation | None:
        return self.phrase


ModelSettings = Annotated[TransformerModel | PhraseRepresentationModel, Field(discriminator="family")]


class Adam(Settings):
    """Adam with the Noam schedule: factor * d^-0.5 * min(t^-0.5, t * warmup^-1.5)."""

    beta1: Probability = Field(0.9, description="first-moment decay")
    beta2: Probability = Field(0.98, description="second-moment decay")
    epsilon: float = Field(1e-9, gt=0, description="added to the root of the second moment")
    factor: float = Field(1.0, gt=0, description="scales the whole schedule (NG: 2)")
    warmup: int = Field(8000, gt=0, description="updates of linear growth")


class Training(Settings):
    """How a system is trained."""

    tokens_per_update: int = Field(25_000, gt=0, description="target tokens (with </s>) of one update, about")
    max_updates: int = Field(100_000, gt=0, description="updates")
    max_length: int = Field(
        256, gt=1, le=1024, description="longest side in positions, </s> included; longer training pairs are left out"
    )
    label_smoothing: Probability = Field(0.1, description="probability mass spread over the other words")
    optimizer: Adam = Field(default_factory=Adam, description="optimiser and schedule")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="matrix products; weights, softmax, normalisation and loss stay float32"
    )
    evaluate_every: int = Field(1500, gt=0, description="updates between two evaluations on dev")
    checkpoint_every: int = Field(1500, gt=0, description="updates between two checkpoints")
    average_last: int = Field(5, gt=0, description="checkpoints averaged at the end")
    early_stopping: int | None = Field(
        None, gt=0, description="stop after so many evaluations without a better dev BLEU; null: never"
    )


class Decoding(Settings):
    """Beam search."""

    beam: int = Field(4, gt=0, description="hypotheses kept per sentence")
    length_penalty: float = Field(0.6, ge=0, description="alpha of Wu et al. (2016): score / ((5+|Y|)/6)^alpha")
    max_length_factor: float = Field(
        1.0, ge=0, description="longest output = factor * source length + max_length_extra"
    )
    max_length_extra: int = Field(50, gt=0, description="subwords")
    n_best: int = Field(1, gt=0, description="hypotheses written per sentence")

    @model_validator(mode="after")
    def _enough_beams(self) -> Decoding:
        if self.n_best > self.beam:
            raise ValueError(f"n_best ({self.n_best}) must not exceed beam ({self.beam})")
        return self


class System(Settings):
    """One row of the table."""

    title: str | None = Field(None, description="name in the table; the system's key when absent")
    model: ModelSettings = Field(description="architecture")
    training: Training = Field(default_factory=Training, description="training")
    decoding: Decoding = Field(default_factory=Decoding, description="search")


class Comparison(Settings):
    """Significance of the difference to the baseline: paired bootstrap (Koehn 2004)."""

    baseline: Name | None = Field(None, description="system the others are compared with; the first one when absent")
    samples: int = Field(1000, gt=0, description="bootstrap samples")
    seed: Seed = Field(12345, description="seed of the resampling")


class Study(Settings):
    """One experiment: data sets x systems x seeds."""

    study: Name = Field(description="name; results go to results/<study>/")
    title: str | None = Field(None, description="heading of table and report")
    seeds: list[Seed] = Field([1], min_length=1, description="each system is trained once per seed")
    datasets: dict[Name, Dataset] = Field(min_length=1, description="data sets by name")
    systems: dict[Name, System] = Field(min_length=1, description="systems by name, in the order of the table")
    parsers: dict[Name, Parser] = Field(default_factory=dict, description="constituency parsers by name")
    chunkers: dict[Name, Chunker] = Field(default_factory=dict, description="chunk taggers by name")
    comparison: Comparison = Field(default_factory=Comparison, description="significance tests")
    cache: Path = Field(
        Path("resources/cache"),
        description="folder of the parse store, best shared between studies and users; the environment variable "
        "PHRASEMT_CACHE goes first. Changes no result",
    )
    mirror: Path | None = Field(
        None,
        description="folder <mirror>/<corpus>/<file> to take corpora from instead of their sources; "
        "the environment variable PHRASEMT_MIRROR goes first. Changes no result",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Study:
        problems = []
        if len(set(self.seeds)) != len(self.seeds):
            problems.append(f"seeds holds a value twice: {self.seeds}")
        if self.comparison.baseline is not None and self.comparison.baseline not in self.systems:
            problems.append(f"comparison.baseline is {self.comparison.baseline!r}, allowed: {', '.join(self.systems)}")
        if both := self.parsers.keys() & self.chunkers.keys():
            problems.append(f"a parser and a chunker are both called {sorted(both)[0]!r}; names must differ")
        for dataset_name, dataset in self.datasets.items():
            problems += [f"datasets.{dataset_name}.{problem}" for problem in self._syntax_problems(dataset)]
        for name, annotator in self.annotators.items():
            where = f"parsers.{name}" if name in self.parsers else f"chunkers.{name}"
            for generated in {text.generated: None for _, text in annotator.texts if text.generated}:
                if generated not in self.datasets or self.datasets[generated].generator is None:
                    problems.append(f"{where}.train names {generated!r}, which is no data set with a generator")
        for name, system in self.systems.items():
            used = system.model.source_phrases
            if used and self.segmentations[used.name] != used:
                problems.append(
                    f"systems.{name}.model.phrase.given is {str(used.given)!r}, and another system has a folder of the "
                    "same name; phrase columns are named by it"
                )
            for dataset_name, dataset in self.datasets.items():
                phrases = system.model.source_phrases
                if phrases and phrases.needs_parses and dataset.source_parser is None:
                    problems.append(
                        f"systems.{name}.model.phrase.mode is {phrases.mode!r}, which needs "
                        f"datasets.{dataset_name}.source_parser"
                    )
                if system.model.tie == "all" and not dataset.subwords.shared_vocabulary:
                    problems.append(
                        f"systems.{name}.model.tie is 'all', which needs "
                        f"datasets.{dataset_name}.subwords.shared_vocabulary: true"
                    )
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @property
    def annotators(self) -> dict[str, Parser | Chunker]:
        """Parsers and chunkers by name."""
        return {**self.parsers, **self.chunkers}

    @property
    def segmentations(self) -> dict[str, PhraseSegmentation]:
        """All ways in which systems of the study cut phrases, by name."""
        found = [system.model.source_phrases for system in self.systems.values()]
        return {segmentation.name: segmentation for segmentation in found if segmentation is not None}

    def _syntax_problems(self, dataset: Dataset) -> list[str]:
        chunks = dataset.target_chunks or TargetChunks(origin="gold")
        problems = []
        parsers: dict[str, Parser | Chunker] = {**self.parsers}
        chunkers: dict[str, Parser | Chunker] = {**self.chunkers}
        for key, name, known, language in (
            ("source_parser", dataset.source_parser, parsers, dataset.source_language),
            ("target_chunks.parser", chunks.parser, parsers, dataset.target_language),
            ("target_chunks.chunker", chunks.chunker, chunkers, dataset.target_language),
        ):
            if name is None:
                continue
            if name not in known:
                problems.append(f"{key} is {name!r}, allowed: {', '.join(known) or 'none, since the study has none'}")
            elif known[name].language != language:
                problems.append(f"{key} is {name!r}, which is for {known[name].language!r} and not {language!r}")
        if chunks.parser is not None and dataset.target_language != "en":
            problems.append(
                f"target_chunks.parser is {chunks.parser!r}, but the rules that make chunks of trees are for English"
            )
        if dataset.target_chunks and chunks.origin == "gold" and dataset.generator is None:
            problems.append("target_chunks.origin is 'gold', but only a generator has gold chunks")
        return problems

    @property
    def baseline(self) -> str:
        return self.comparison.baseline or next(iter(self.systems))
