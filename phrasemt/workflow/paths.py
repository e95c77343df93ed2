"""Paths of all artefacts of a study, as patterns with the wildcards of Snakemake.

    resources/<corpus>/...                           corpora as fetched, and their texts
    results/<study>/<dataset>.<source>-<target>/     everything about one data set
    results/<study>/annotators/<annotator>/          trained parsers and chunkers, with their scores
    results/<study>/table.*, report.html
    logs/<study>/<stage>/<job>.log, benchmarks/<study>/<stage>/<job>.tsv

The folder of a data set names its languages, because the two sides of a text are outputs of one rule and Snakemake
wants the same wildcards in all outputs of a rule. The folder of a monolingual data set repeats its language, so that
the paths of both sides are the same.
"""

from __future__ import annotations

import re
from pathlib import Path

from phrasemt.stages import STAGES
from phrasemt.study.schema import Study, System


class Pattern(str):
    """A path with wildcards in braces."""

    __slots__ = ()

    def at(self, **values: object) -> Pattern:
        """The path with these wildcards replaced; the others stay."""
        path = str(self)
        for name, value in values.items():
            assert f"{{{name}}}" in path, f"{path} has no wildcard {name}"
            path = path.replace(f"{{{name}}}", str(value))
        return Pattern(path)

    @property
    def glob(self) -> str:
        """The pattern of a shell, with an asterisk for each wildcard."""
        return re.sub(r"\{\w+\}", "*", self)

    def names(self, path: Path) -> dict[str, str]:
        """The values of the wildcards in a path of this pattern. Raises ValueError for another path."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+?)", re.escape(self))
        match = re.fullmatch(f"(?:.*/)?{pattern}", path.as_posix())
        if match is None:
            raise ValueError(f"{path} is no path of the form {self}")
        return match.groupdict()


RESULTS, LOGS, BENCHMARKS = Path("results"), Path("logs"), Path("benchmarks")
ORIGINAL_FILE = Pattern("resources/{corpus}/original/{file}")
REGISTERED_TEXT = Pattern("resources/{corpus}/{part}.{language}")
_WEIGHTS = Path("averaged.safetensors")
EXPORTED_NOTE, EXPORTED_WEIGHTS = "model.json", "weights.safetensors"  # of a folder of `phrasemt export`
STANZA_FILE = Pattern("resources/stanza/{language}/{file}")


class Paths:
    """The patterns of one study. folder: the folder of a data set; with the default its names are wildcards, too."""

    def __init__(self, study: str, folder: str = "{dataset}.{source}-{target}") -> None:
        self.results = Pattern(RESULTS / study)
        self.logs = Pattern(LOGS / study)
        self.benchmarks = Pattern(BENCHMARKS / study)

        self.dataset = Pattern(f"{self.results}/{folder}")
        self.raw_text = self._of_dataset("raw/{split}.{language}")
        self.raw_trees = self._of_dataset("raw/{split}.trees")
        self.raw_chunks = self._of_dataset("raw/{split}.chunks.{language}")
        self.raw_contrasts = self._of_dataset("raw/{split}.contrasts.tsv")
        self.text = self._of_dataset("corpus/{split}.{language}")
        self.rows = self._of_dataset("corpus/{split}.rows")
        self.dropped = self._of_dataset("corpus/{split}.dropped.tsv")
        self.tokens = self._of_dataset("tokens/{split}.{language}")
        self.round_trip = self._of_dataset("tokens/{split}.{language}.round_trip.json")
        self.codes = self._of_dataset("subwords/codes.bpe")
        self.counts = self._of_dataset("subwords/counts.{language}")
        self.subwords = self._of_dataset("subwords/{split}.{language}")
        self.vocabulary = self._of_dataset("vocabulary.{language}.tsv")
        self.examples = self._of_dataset("examples/{split}.arrow")
        self.split_counts = self._of_dataset("splits.json")
        self.sentences = self._of_dataset("sentences/{split}.{language}.arrow")
        self.parses = self._of_dataset("parses/{annotator}/{split}.{job}.arrow")
        self.tags = self._of_dataset("tags/{annotator}/{split}.{job}.arrow")
        self.phrases = self._of_dataset("phrases/{segmenter}/{split}.arrow")
        self.phrase_statistics = self._of_dataset("phrases/{segmenter}/{split}.json")
        self.chunks = self._of_dataset("chunks/{split}.arrow")
        self.chunk_statistics = self._of_dataset("chunks/{split}.json")

        self.truecaser = self._of_dataset("moses/truecaser.{language}")
        self.moses_text = self._of_dataset("moses/{phrase_model}/text/{split}.{language}")
        self.language_model = self._of_dataset("moses/{phrase_model}/language_model.trie")
        self.aligned_text = self._of_dataset("moses/{phrase_model}/aligned.{language}")
        self.alignment = self._of_dataset("moses/{phrase_model}/alignment")
        self.phrase_table = self._of_dataset("moses/{phrase_model}/phrase-table.gz")
        self.reordering_table = self._of_dataset("moses/{phrase_model}/reordering-table.gz")

        self.model = self._of_dataset("models/{system}/{seed}")
        self.record = Pattern(f"{self.model}/training.json")
        self.training_state = Pattern(f"{self.model}/state")
        self.weights = Pattern(f"{self.model}/{_WEIGHTS}")
        self.average_scores = Pattern(f"{self.model}/averaged.json")
        self.length_penalty_scores = self._of_dataset("length_penalties/{system}/{seed}.json")
        self.tuned_weights = Pattern(f"{self.model}/weights.json")
        self.tuning_state = Pattern(f"{self.model}/tuning")
        self.translations = self._of_dataset("translations/{system}/{seed}/{split}.jsonl")
        self.translated_tokens = self._of_dataset("translations/{system}/{seed}/{split}.tok")
        self.translated_text = self._of_dataset("translations/{system}/{seed}/{split}.txt")
        self.scores = self._of_dataset("scores/{system}/{seed}.json")
        self.metric_scores = self._of_dataset("metrics/{metric}/{system}/{seed}.json")
        self.comparison = self._of_dataset("comparisons/{system}.json")
        self.contrast_accuracy = self._of_dataset("contrasts/{system}/{seed}/{split}.json")
        self.perplexity = self._of_dataset("perplexities/{system}/{seed}.json")
        self.length_scores = self._of_dataset("lengths/{system}.json")
        self.attention = self._of_dataset("attention/{system}/{seed}/{split}.arrow")
        self.attention_analysis = self._of_dataset("attention/{system}/{seed}/{split}.json")
        self.chunk_scores = self._of_dataset("chunk_scores/{system}/{seed}.json")

        self.annotator_folder = Pattern(f"{self.results}/annotators/{{annotator}}")
        self.annotator = Pattern(f"{self.annotator_folder}/annotator.json")
        self.vectors = Pattern(f"{self.annotator_folder}/vectors.pt")
        self.tagger = Pattern(f"{self.annotator_folder}/tagger.pt")
        self.tagger_scores = Pattern(f"{self.annotator_folder}/tagger.json")
        self.constituency_parser = Pattern(f"{self.annotator_folder}/constituency.pt")
        self.chunker = Pattern(f"{self.annotator_folder}/chunker.pt")

        self.table = f"{self.results}/table.json"
        self.table_markdown = f"{self.results}/table.md"
        self.table_csv = f"{self.results}/table.csv"
        self.table_latex = f"{self.results}/table.tex"
        self.report = f"{self.results}/report.html"

    @classmethod
    def of(cls, study: Study, dataset: str) -> Paths:
        """The paths of one data set of a study; `language` and the like are wildcards still."""
        return cls(study.study, f"{dataset}.{'-'.join(study.datasets[dataset].languages)}")

    def _of_dataset(self, path: str) -> Pattern:
        return Pattern(f"{self.dataset}/{path}")

    def log(self, stage: str) -> Pattern:
        """The log of a stage."""
        return Pattern(f"{self.logs}/{_job(stage)}.log")

    def benchmark(self, stage: str) -> Pattern:
        """Snakemake's table of the time and memory that a stage used."""
        return Pattern(f"{self.benchmarks}/{_job(stage)}.tsv")


def initial_weights(system: System, seed: object) -> list[Path]:
    """The file that a system's training with this seed starts from; no file for random weights."""
    place = system.init_from
    if place is None:
        return []
    if place.suffix == _WEIGHTS.suffix:
        return [place]
    return [place / EXPORTED_WEIGHTS if (place / EXPORTED_NOTE).is_file() else place / str(seed) / _WEIGHTS]


# For files of which the study is not known; its name is a wildcard, too.
ANY_STUDY = Paths("{study}")


def log_of(benchmark: Path) -> Path:
    """The log of the job that a benchmark is about."""
    return LOGS / benchmark.relative_to(BENCHMARKS).with_suffix(".log")


def _job(stage: str) -> str:
    return f"{stage}/{STAGES[stage].job_name}".rstrip("/")
