"""One finished study without a training, for tests of tables, reports, capsules and comparisons.

What models would have made is invented; the real stages score and compare it. The files lie where the workflow puts
them, with sidecars. `golden` (tests/conftest.py) makes them once for all processes. A study of some of the systems is
a part of it: it reads the same files.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import math
import random
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from made_table import accuracy
from stage_settings import settings_file

from phrasemt.artefacts.columns import ChunkColumns, PhraseColumns
from phrasemt.artefacts.corpus import ComparedSplits, DroppedPair, DroppedPairs, RoundTrip, Shared, SplitCounts
from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.scores import OfTestSets
from phrasemt.artefacts.sidecar import Origin, library_versions, produce, sidecar_path
from phrasemt.artefacts.syntax import Card, ChunkStatistics, PhraseStatistics
from phrasemt.artefacts.training import (
    AverageScores,
    Evaluation,
    EvaluationReport,
    LastUpdate,
    Metrics,
    TrainingRecord,
    UpdateReport,
    ranked,
)
from phrasemt.artefacts.translations import (
    AttentionAnalysis,
    ChunkAccuracies,
    ChunkAccuracy,
    ChunkDecisions,
    Perplexity,
    PerplexityScores,
)
from phrasemt.files.attention import AttentionMap, ForcedSentence, write_forced
from phrasemt.files.columns import RaggedArray
from phrasemt.files.lines import write_lines, write_text
from phrasemt.files.system import digest_file
from phrasemt.stages import STAGES
from phrasemt.stages.stage import Stage
from phrasemt.stages.syntax import MeasurePhrases
from phrasemt.study.schema import Study
from phrasemt.symbols import CHUNK_LABELS, escape
from phrasemt.syntax.annotations import Annotation, parser_tokens, sentence_key, write_annotations
from phrasemt.workflow.run_stage import run_stage

WORDS = ["der", "die", "das", "Hund", "Katze", "Haus", "sieht", "kauft", "und", "rote", "alte", "E-Mail", ","]
SENTENCES, WORDS_OF_A_SENTENCE = 60, (5, 14)
# Text that would be a script, if the report took text for HTML; the escapes are Moses'.
HOSTILE = escape("</script><script>document.title='broken'</script><img src=x onerror=alert(1)> \\u003c & 'quoted' .")
METRICS = "state/abc/metrics.jsonl"
# The part of the words of the reference that a system gets wrong, its title and its model.
SYSTEMS: dict[str, tuple[float, str | None, dict[str, object]]] = {
    "base": (0.30, "Transformer", {"family": "transformer"}),
    "max": (0.20, "+ phrases (max) & <b>", {"family": "phrase_representation", "glance": "max"}),
    "mean": (0.29, "+ phrases | mean", {"family": "phrase_representation", "glance": "mean"}),
    "once": (0.28, None, {"family": "phrase_representation", "glance": "mean"}),
    "bi": (0.25, None, {"family": "biscale"}),
    "lm": (0.4, None, {"family": "language_model"}),
    "lm2": (0.3, None, {"family": "language_model", "attention": "ngrams"}),
}
_DECISIONS = ("boundary_acc", "boundary_precision", "boundary_recall", "boundary_f1", "label_acc_paper", "label_acc")
_FIRST_SEED_ONLY = ("translated_tokens", "attention_weights")  # in the report


def study_of(*systems: str, seeds: tuple[int, ...] = (1, 2), datasets: tuple[str, ...] = ("demo", "captions")) -> Study:
    """The study of these systems, or of the first three; `once` has one training."""
    texts = [{"corpus": "multi30k", "part": "train"}]
    gold = [{"generated": "demo", "split": "train"}]
    known: dict[str, dict[str, object]] = {
        "demo": {
            "source_language": "en",
            "target_language": "de",
            "generator": {"train": 9, "dev": 9, "test": 9},
            "source_parser": "english",
            "target_chunks": {"origin": "gold"},
        },
        "captions": {
            "source_language": "de",
            "target_language": "en",
            "splits": {"train": texts, "dev": texts, "test": {"flickr_2016": texts, "coco": texts}},
        },
    }
    rows: dict[str, dict[str, object]] = {}
    for name in systems or ("base", "max", "mean"):
        rows[name] = {"title": SYSTEMS[name][1], "model": SYSTEMS[name][2]}
    if "once" in rows:
        rows["once"]["seeds"] = list(seeds[:1])
    return Study.model_validate(
        {
            "study": "golden",
            "title": "Phrases on <golden> data",
            "seeds": list(seeds),
            "comparison": {"samples": 100},
            "datasets": {name: known[name] for name in datasets},
            "parsers": {"english": {"language": "en", "train": {"train": gold, "test": gold}}},
            "systems": rows,
        }
    )


def rewrite(path: Path, text: str) -> None:
    """Replace the content of an artefact as its stage would: the sidecar, if there is one, names the new content."""
    old = digest_file(path)
    path.write_text(text)
    if (sidecar := sidecar_path(path)).is_file():
        sidecar.write_text(sidecar.read_text().replace(old, digest_file(path)))


@functools.cache
def _kind_of(path: Path) -> str:
    """The name of the kind of a file: of those whose patterns fit, the one with the most letters of its own."""
    return max((len(kind.glob), name) for name, kind in Paths.kinds().items() if kind.fits(path))[1]


class GoldenStudy:
    """The files of a study below the current folder. `build` makes all of them; parts can be made again."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.results = Path("results", study.study)

    @classmethod
    def part(cls, golden: Path, folder: Path, *systems: str, **choices: Any) -> Self:
        """The study of some of the systems in a folder, a copy of the golden one, compared, without table and report.

        Without systems it is that of the first three, whose comparisons are there.
        """
        shutil.copytree(golden, folder, dirs_exist_ok=True)
        found = cls(study_of(*systems, **choices))
        with contextlib.chdir(folder):
            for path in [*found.results.glob("table.*"), *found.results.glob("report.*")]:
                path.unlink()
            if systems or choices:
                found.compare_all()
        return found

    def path(self, kind: str, dataset: str = "demo", **names: object) -> Path:
        """Where a file of a kind lies (`system_scores`)."""
        return Path(getattr(Paths.of(self.study, dataset), kind).at(**names))

    def build(self) -> None:
        for dataset, test_set in self.test_sets:
            self._reference(dataset, test_set)
            for system, seed in self.translated:
                self._translate(dataset, test_set, system, seed)
        for dataset in self.study.datasets:
            self._clean(dataset)
            for system, seed in self.translated:
                self.score(dataset, system, seed)
            for system, seed in self._runs(self.study.language_models):
                self._score_perplexity(dataset, system, seed)
            for system, seed in self._runs(self.study.chunking):
                self._score_chunks(dataset, system, seed)
            for system, seed in self._runs(list(self.study.models)):
                self._train(dataset, system, seed)
                self.average(dataset, system, seed)
        for system, seed in self.translated:
            self._score_contrasts(system, seed)
        for (dataset, test_set), system in itertools.product(self.test_sets, self.study.forced):
            for seed in self.study.seeds_of(system):
                self._force(dataset, test_set, system, seed)
        self._annotate()

    @property
    def test_sets(self) -> list[tuple[str, str]]:
        return [(name, test_set) for name, dataset in self.study.datasets.items() for test_set in dataset.test_sets]

    @property
    def translated(self) -> list[tuple[str, int]]:
        return self._runs(self.study.translating)

    def _runs(self, systems: list[str]) -> list[tuple[str, int]]:
        return [(system, seed) for system in systems for seed in self.study.seeds_of(system)]

    def inputs(self, stage: str, **changes: list[Path]) -> dict[str, list[Path]]:
        """The files of the table or of the report, by their kinds, in the order of the study.

        changes: other files of a kind.
        """
        written = sorted(path for path in self.results.rglob("*") if not path.name.endswith(".meta.json"))
        found = {
            file.name: sorted(
                (path for path in written if _kind_of(path) == file.name and self._has(file.name, path)),
                key=self._place,
            )
            for file in STAGES[stage].stage_files("input")
            if file.many
        }
        return found | changes

    def _has(self, kind: str, path: Path) -> bool:
        """Whether a file belongs to this study, which may be a part of the one that was built."""
        names = Paths.kinds()[kind].names(path)
        system = names.get("system")
        if names.get("dataset", "demo") not in self.study.datasets or system not in (None, *self.study.systems):
            return False
        seeds = self.study.seeds_of(system) if system else []
        return "seed" not in names or int(names["seed"]) in seeds[: 1 if kind in _FIRST_SEED_ONLY else None]

    def _place(self, path: Path) -> tuple[int, ...]:
        """Data sets, systems and seeds in the order of the study."""
        datasets = [f"{name}.{'-'.join(one.languages)}" for name, one in self.study.datasets.items()]
        orders = (datasets, list(self.study.systems), [str(seed) for seed in self.study.seeds])
        names = [part.partition(".json")[0] for part in path.parts]
        return tuple(next((order.index(name) for name in names if name in order), -1) for order in orders)

    def make_table(self, **changes: list[Path]) -> None:
        names = {"markdown": "md", "latex": "tex", "csv": "csv", "table": "json"}
        inputs = self.inputs("make_table", **changes)
        self.run("make_table", {}, **inputs, **{one: self.results / f"table.{end}" for one, end in names.items()})

    def write_report(self, **changes: list[Path]) -> None:
        places = {"table": self.results / "table.json", "report": self.results / "report.html"}
        self.run("write_report", {}, **self.inputs("write_report", **changes), **places)

    def run(self, stage: str, wildcards: dict[str, str], **paths: Path | list[Path]) -> None:
        settings = Path(settings_file(STAGES[stage].from_study(self.study, wildcards)))
        run_stage(stage, argparse.Namespace(settings=settings, cores=1, **paths))

    def _write(self, stage: str, outputs: dict[str, Any], settings: Stage | None = None, **names: str) -> None:
        """Write outputs of a stage where the workflow has them, with the sidecars that it would have written.

        outputs: a text, an artefact, or a function that writes. names: wildcards.
        """
        settings = settings or STAGES[stage].from_study(self.study, names)
        paths = Paths.of(self.study, names["dataset"]) if "dataset" in names else Paths(self.study.study)
        places = {name: Path(STAGES[stage].outputs[name].within(**{**paths.names, **names})) for name in outputs}
        versions = library_versions(tuple(one for one in settings.libraries if one != "torch"))
        made_of = Origin.of(stage, inputs={}, settings=settings, code="0" * 16, versions=versions)
        with produce(made_of, places) as unfinished:
            for name, content in outputs.items():
                path = unfinished[name]
                if isinstance(content, str):
                    write_text(path, content)
                elif callable(content):
                    content(path)
                else:
                    content.write(path)

    def _reference(self, dataset: str, test_set: str) -> None:
        source, target = self.study.datasets[dataset].languages
        draw = random.Random(f"{dataset} {test_set}")
        tokens = [" ".join([*draw.choices(WORDS, k=draw.randint(*WORDS_OF_A_SENTENCE)), "."]) for _ in range(SENTENCES)]
        source_tokens = [HOSTILE, *(f"number {number} {line.lower()}" for number, line in enumerate(tokens[1:], 2))]
        round_trip = RoundTrip(language=target, score=98.7654, signature="nrefs:1", lines=SENTENCES, changed_lines=7)
        names = {"dataset": dataset, "split": test_set}
        self._write("tokenize_text", {"tokens": _text(source_tokens)}, **names, language=source)
        outputs = {"tokens": _text(tokens), "round_trip": round_trip}
        self._write("tokenize_text", outputs, **names, language=target)
        write_lines(self.path("clean_text", dataset, split=test_set, language=target), map(detokenised, tokens))
        if dataset == "demo":
            self._syntax(source_tokens, tokens)

    def _syntax(self, source: list[str], target: list[str]) -> None:
        """Parses, phrases of two tokens, and chunks of three words with the labels NP and VP, of the test set."""
        rows = np.arange(len(source))
        words = [parser_tokens(line) for line in source]
        trees = [" ".join(["(S (NP", *(f"(N {place})" for place in range(len(one)))]) + "))" for one in words]
        by_key = dict(zip(map(sentence_key, words), trees, strict=True))
        tokens = {language: self.path("tokens", split="test", language=language) for language in ("en", "de")}
        source_lengths, target_lengths = ([len(line.split(" ")) + 1 for line in side] for side in (source, target))

        def parse(path: Path) -> None:
            annotations = [Annotation(tree, None) for tree in by_key.values()]
            write_annotations(path, list(by_key), annotations, {"fingerprint": "ab" * 16})

        def cut(path: Path) -> None:
            ends = RaggedArray.of([[*range(2, length, 2), length] for length in source_lengths])
            PhraseColumns.write(path, tokens["en"], {}, [(rows, {"ends": ends})])

        def chunk(path: Path) -> None:
            starts = [list(range(0, length, 3)) for length in target_lengths]
            labels = [[CHUNK_LABELS.index("NP" if place % 2 else "VP") for place in one] for one in starts]
            columns = {"starts": RaggedArray.of(starts), "labels": RaggedArray.of(labels)}
            ChunkColumns.write(path, tokens["de"], "gold", [(rows, columns)])

        def attend(path: Path) -> None:
            """On the second sentence: half of each word's attention is on the same place, half on the last bigram."""
            units = {side: [*lines[1].split(" "), "</s>"] for side, lines in (("source", source), ("target", target))}
            weights = np.zeros((2, len(units["target"]), 2, len(units["source"])), np.float32)
            for place in range(len(units["target"])):
                weights[:, place, 0, place] = 0.5
            weights[:, :, 1, -1] = 0.5
            one = AttentionMap(place="cross", layer=1, weights_hTNS=weights)
            log_probs = [-1.0] * len(units["target"])
            write_forced(path, [ForcedSentence(row=1, **units, log_probs=log_probs, attentions=[one])])

        settings = MeasurePhrases(segmentation="", needs_parses=False)
        names = {"annotator": "english", "segmenter": "ngram", "system": "max", "seed": "1", "job": "0"}
        for stage, outputs in (
            ("parse_sentences", {"annotations": parse}),
            ("extract_phrases", {"phrases": cut}),
            ("extract_chunks", {"chunks": chunk}),
            ("analyse_attention", {"attention": attend}),
        ):
            self._write(stage, outputs, settings, dataset="demo", split="test", **names)

    def _translate(self, dataset: str, test_set: str, system: str, seed: int) -> None:
        draw = random.Random(f"{dataset} {test_set} {system} {seed}")
        language = self.study.datasets[dataset].target_language
        references = self.path("tokens", dataset, split=test_set, language=language).read_text().split("\n")[:-1]
        wrong = SYSTEMS[system][0]
        tokens = [
            " ".join(draw.choice(WORDS) if draw.random() < wrong else word for word in line.split(" "))
            for line in references
        ]
        outputs = {"tokens": _text(tokens), "text": _text(map(detokenised, tokens))}
        names = {"dataset": dataset, "split": test_set, "system": system, "seed": str(seed)}
        self._write("translate_examples", outputs, **names)

    def score(self, dataset: str, system: str, seed: int, **changes: list[Path]) -> None:
        language, test_sets = self.study.datasets[dataset].target_language, self.study.datasets[dataset].test_sets
        run = {"system": system, "seed": seed}
        inputs = {
            "tokens": [self.path("translated_tokens", dataset, **run, split=one) for one in test_sets],
            "text": [self.path("translated_text", dataset, **run, split=one) for one in test_sets],
            "reference_tokens": [self.path("tokens", dataset, split=one, language=language) for one in test_sets],
            "reference": [self.path("clean_text", dataset, split=one, language=language) for one in test_sets],
        }
        names = {"dataset": dataset, "system": system, "seed": str(seed)}
        self.run("score_system", names, **{**inputs, **changes}, scores=self.path("system_scores", dataset, **run))

    def measure_variation(self, dataset: str, metrics: Sequence[Path] = ()) -> None:
        repeated = self.study.repeated
        self.run(
            "measure_variation",
            {"dataset": dataset},
            repeated=self._scores_of(dataset, *repeated),
            repeated_metrics=list(metrics),
            repeated_forced=self._forced_of(dataset, *(name for name in repeated if name in self.study.forced)),
            variation=self.path("seed_variation", dataset),
        )

    def compare_all(self) -> None:
        for dataset in self.study.datasets if self.study.repeated else []:
            self.measure_variation(dataset)
        for dataset, system in itertools.product(self.study.datasets, self.study.translating):
            if system in self.study.baselines:
                self.compare(dataset, system)

    def compare(self, dataset: str, system: str, **metrics: list[Path]) -> None:
        sides = [self.study.baseline_of(system), system]
        self.run(
            "compare_systems",
            {"dataset": dataset, "system": system},
            baseline=self._scores_of(dataset, sides[0]),
            system=self._scores_of(dataset, system),
            variation=[self.path("seed_variation", dataset)] if self.study.repeated else [],
            comparison=self.path("comparison", dataset, system=system),
            **{f"{side}_metrics": [] for side in ("baseline", "system")} | metrics,
            forced=self._forced_of(dataset, *sides) if {*sides} <= {*self.study.forced} else [],
        )

    def _forced_of(self, dataset: str, *systems: str) -> list[Path]:
        return [
            self.path("attention_analysis", dataset, split=test_set, system=one, seed=seed)
            for one, seed in self._runs(list(systems))
            for test_set in self.study.datasets[dataset].test_sets
        ]

    def _scores_of(self, dataset: str, *systems: str) -> list[Path]:
        return [self.path("system_scores", dataset, system=one, seed=seed) for one, seed in self._runs(list(systems))]

    def _score_contrasts(self, system: str, seed: int) -> None:
        wrong = SYSTEMS[system][0] + seed / 100
        groups = [(1, 300, 1 - wrong / 3), (3, 400, 1 - wrong / 2), (16, 300, 1 - wrong)]
        pairs = [(place < round(count * rate), at) for at, count, rate in groups for place in range(count)]
        right, distances = zip(*pairs, strict=True)
        content = accuracy(system, right, distances, seed=seed, dataset="demo", contrast_set="test")
        names = {"dataset": "demo", "split": "test", "system": system, "seed": str(seed)}
        self._write("score_contrasts", {"accuracy": content}, **names)

    def _force(self, dataset: str, test_set: str, system: str, seed: int) -> None:
        language = self.study.datasets[dataset].target_language
        lines = self.path("tokens", dataset, split=test_set, language=language).read_text().splitlines()
        draw, lengths = random.Random(f"{dataset} {test_set} {system} {seed} nats"), [len(one.split()) for one in lines]
        nats = [length * draw.gauss(3 * SYSTEMS[system][0], 0.1) for length in lengths]
        content = AttentionAnalysis(
            dataset=dataset,
            test_set=test_set,
            system=system,
            seed=seed,
            sentences=len(lines),
            tokens=sum(lengths),
            perplexity=math.exp(sum(nats) / sum(lengths)),
            diagnostics={},
            attentions=[],
            sentence_nats=nats,
            sentence_tokens=lengths,
        )
        names = {"dataset": dataset, "split": test_set, "system": system, "seed": str(seed)}
        self._write("analyse_attention", {"analysis": content}, **names)

    def _score_perplexity(self, dataset: str, system: str, seed: int) -> None:
        sentences, words, tokens = 60, 600, 780
        nll = 3000 * SYSTEMS[system][0] + 10 * seed
        perplexities = {"per_token": math.exp(nll / tokens), "per_word": math.exp(nll / (words + sentences))}
        part = Perplexity(sentences=sentences, words=words, tokens=tokens, nll=nll, **perplexities)
        self._scored("score_perplexity", "perplexity", PerplexityScores, dataset, system, seed, part)

    def _score_chunks(self, dataset: str, system: str, seed: int) -> None:
        rates = dict(zip(_DECISIONS, (0.9, 0.85, 0.95, 0.897, 0.45 + seed / 100, 0.7), strict=True))
        majority = dict(zip(_DECISIONS, (0.65, 0.65, 1.0, 0.788, 0.3, 0.46), strict=True))
        part = ChunkAccuracy(sentences=60, positions=660, chunks=429, **rates, majority=ChunkDecisions(**majority))
        self._scored("score_chunks", "scores", ChunkAccuracies, dataset, system, seed, part)

    def _scored(
        self, stage: str, output: str, kind: type[OfTestSets[Any]], dataset: str, system: str, seed: int, part: Any
    ) -> None:
        """The same for each test set of the data set."""
        test_sets = dict.fromkeys(self.study.datasets[dataset].test_sets, part)
        content = kind(dataset=dataset, system=system, seed=seed, test_sets=test_sets)
        self._write(stage, {output: content}, dataset=dataset, system=system, seed=str(seed))

    def _train(self, dataset: str, system: str, seed: int) -> None:
        draw = random.Random(f"{dataset} {system} {seed}")
        best = 45 * (1 - SYSTEMS[system][0])
        updates = range(500, 6001, 500)
        lm = system in self.study.language_models
        evaluations = [
            Evaluation(
                update=update,
                dev_bleu=None if lm else best * (1 - math.exp(-update / 1500)) + draw.random(),
                dev_perplexity=5 + 50 * math.exp(-update / 900),
                measurements={"dev_encoder_1_saturated": update / 10_000} if system == "max" else {},
            )
            for update in updates
        ]
        content = TrainingRecord(
            model=self.study.systems[system].model,
            parameters=1_234_567 if system == "base" else 1_534_567,
            idle_parameters=34_567 if system == "max" else 0,
            precision="float32",
            updates=6000,
            stopped="max_updates",
            skipped=0,
            processes=1,
            micro_batch_positions=[4000],
            micro_batches_per_update=1.0,
            checkpoints=[f"state/abc/checkpoint-{update:06}.safetensors" for update in updates],
            best_update=ranked(evaluations, "bleu")[0].update,
            evaluations=evaluations,
            metrics=METRICS,
        )
        self._write("train_model", {"record": content}, dataset=dataset, system=system, seed=str(seed))
        common = {"memory_mib": 100, "epoch": 1, "perplexity": 9, "learning_rate": 0.001, "tokens_per_second": 9000}
        reports: list[UpdateReport | EvaluationReport] = [
            UpdateReport(
                update=update, seconds=0, skipped=0, loss=2 + 6 * math.exp(-update / 800) + draw.random() / 5, **common
            )
            for update in range(20, 6001, 20)
        ]
        evaluation = EvaluationReport(seconds=9, memory_mib=100, evaluation_seconds=0.657, evaluation=evaluations[0])
        metrics = self.path("training_record", dataset, system=system, seed=seed).parent / METRICS
        metrics.parent.mkdir(parents=True, exist_ok=True)
        Metrics([*reports, evaluation]).write(metrics)

    def average(self, dataset: str, system: str, seed: int) -> None:
        """The mean is better than the last update by 1 BLEU, except the mean of `max`, which is worse by 2."""
        bleu = None if system in self.study.language_models else 45 * (1 - SYSTEMS[system][0]) + seed
        content = AverageScores(
            dataset=dataset,
            system=system,
            seed=seed,
            sentences=900,
            dev_bleu_tokenizer="13a",
            updates=[5000, 5500, 6000],
            dev_bleu=bleu,
            dev_perplexity=5 + SYSTEMS[system][0],
            last=LastUpdate(update=6000, dev_bleu=bleu and bleu + (2 if system == "max" else -1), dev_perplexity=5.5),
            worse_than_last=system == "max",
        )
        self._write("average_checkpoints", {"scores": content}, dataset=dataset, system=system, seed=str(seed))

    def _clean(self, dataset: str) -> None:
        """What cleaning drops, and what splits share."""
        rows = ((3, "max_words", "140"), (4, "max_words", "101"), (9, "duplicate", "2"))
        dropped = [DroppedPair(*row) for row in rows]
        for split, read, pairs in (("train", 12345, dropped), ("dev", 900, [])):
            content = DroppedPairs(raw_pairs=read, kept=read - len(pairs), dropped=pairs)
            self._write("clean_pairs", {"dropped": _text(content.lines)}, dataset=dataset, split=split)
        none = dict.fromkeys(("equal_sides", "blank_targets", "cut_sources", "cut_targets"), 0)
        splits = {
            name: SplitCounts(
                pairs=SENTENCES,
                in_train=Shared(pairs=number, sources=2 * number, targets=3 * number),
                in_dev=Shared(pairs=0, sources=0, targets=0) if number else None,
                blank_sources=number,
                **none,
            )
            for number, name in enumerate(self.study.datasets[dataset].held_out)
        }
        content = ComparedSplits(overlap="refused", splits=splits)
        self._write("compare_splits", {"counts": content}, dataset=dataset)

    def _annotate(self) -> None:
        """Statistics of phrases and chunks, and the card of the parser."""
        for segmenter, constituents, fallbacks in (("ngram", 212, {}), ("parse", 431, {"too long": 2})):
            statistics = PhraseStatistics(
                segmentation=segmenter,
                sentences=120,
                phrases=500,
                tokens=1600,
                lengths={1: 100, 3: 300, 6: 100},
                fallbacks=fallbacks,
                constituents=constituents,
                comparable=490,
            )
            settings = MeasurePhrases(segmentation=segmenter, needs_parses=False)
            names = {"dataset": "demo", "split": "train", "segmenter": segmenter}
            self._write("measure_phrases", {"statistics": statistics}, settings, **names)
        chunks = ChunkStatistics(origin="gold", sentences=9, words=90, chunks=60, labels={}, fallbacks={})
        self._write("extract_chunks", {"statistics": chunks}, dataset="demo", split="dev")
        card = Card(
            kind="constituency",
            origin="trained",
            language="en",
            stanza="1",
            files={},
            options={},
            scores={"f1": 0.9731},
        )
        self._write("train_parser", {"annotator": card}, annotator="english")


def make_golden(folder: Path) -> None:
    """The files of all systems, of some on one data set only, in a folder, and table and report of the first three."""
    with contextlib.chdir(folder):
        GoldenStudy(study_of("base", "once", "bi", "lm", "lm2", datasets=("demo",))).build()
        study = GoldenStudy(study_of())
        study.build()
        study.compare_all()
        study.make_table()
        study.write_report()


def detokenised(line: str) -> str:
    return line.replace(" .", ".").replace(" ,", ",")


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
