"""A finished study without a training: invented translations, scored and compared by the real stages.

The files lie where the workflow puts them, with sidecars, so that tables and reports see what they see in earnest.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np

from phrasemt.cli import run_stage
from phrasemt.files.attention import AttentionMap, ForcedSentence, write_forced
from phrasemt.files.columns import Lists, write_columns
from phrasemt.files.digests import digest_file
from phrasemt.files.lines import write_lines, write_text
from phrasemt.files.sidecars import origin, produce, sidecar_path
from phrasemt.stages import STAGES
from phrasemt.stages.stage import Stage
from phrasemt.stages.syntax import MeasurePhrases
from phrasemt.study.schema import Study
from phrasemt.symbols import CHUNK_LABELS, escape
from phrasemt.syntax.sentences import parser_tokens, sentence_key
from phrasemt.syntax.store.annotations import Annotation, write_annotations

WORDS = ["der", "die", "das", "Hund", "Katze", "Haus", "sieht", "kauft", "und", "rote", "alte", "E-Mail", ","]
# Share of the words of the reference that a system gets wrong.
MISTAKES = {"base": 0.30, "together": 0.28, "max": 0.20, "mean": 0.29, "bi": 0.25, "lm": 0.4, "lm2": 0.3}
SENTENCES = 60
WORDS_OF_A_SENTENCE = (5, 14)
# Text that would be a script, if the report took text for HTML; the escapes are Moses'.
HOSTILE = escape("</script><script>document.title='broken'</script><img src=x onerror=alert(1)> \\u003c & 'quoted' .")
METRICS = "state/abc/metrics.jsonl"
_DECISIONS = ("boundary_acc", "boundary_precision", "boundary_recall", "boundary_f1", "label_acc_paper", "label_acc")


def mistakes(system: str) -> float:
    """The share of the words that a system gets wrong."""
    return MISTAKES.get(system, 0.28)


def study_of(
    *,
    seeds: tuple[int, ...] = (1, 2),
    systems: tuple[str, ...] = ("base", "max", "mean"),
    datasets: tuple[str, ...] = ("demo", "captions"),
) -> Study:
    titles = {"base": "Transformer", "max": "+ phrases (max) & <b>", "mean": "+ phrases | mean"}
    models: dict[str, dict[str, object]] = {
        "base": {"family": "transformer"},
        "max": {"family": "phrase_representation", "glance": "max"},
        "mean": {"family": "phrase_representation", "glance": "mean"},
        "bi": {"family": "biscale"},
        "lm": {"family": "language_model"},
        "lm2": {"family": "language_model", "attention": "phrasal"},
    }
    rows = {
        "together": {"weights_of": ["base"], "decoding": {"ensemble": list(seeds)}},
        "once": {"model": models["mean"], "seeds": list(seeds[:1])},
    }
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
    return Study.model_validate(
        {
            "study": "invented",
            "title": "Phrases on <invented> data",
            "seeds": list(seeds),
            "comparison": {"samples": 100},
            "analyses": {"lengths": [8, 12, 30]},
            "datasets": {name: known[name] for name in datasets},
            "parsers": {"english": {"language": "en", "train": {"train": gold, "test": gold}}},
            "systems": {
                name: {"title": titles.get(name), **rows.get(name, {"model": models.get(name, models["max"])})}
                for name in systems
            },
        }
    )


def rewrite(path: Path, text: str) -> None:
    """Replace the content of an artefact as its stage would: the sidecar, if there is one, names the new content."""
    old = digest_file(path)
    path.write_text(text)
    if (sidecar := sidecar_path(path)).is_file():
        sidecar.write_text(sidecar.read_text().replace(old, digest_file(path)))


class InventedStudy:
    """The files of a study below the current folder. `build` makes all of them; the parts can be made again."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.results = Path("results", study.study)

    def build(self) -> None:
        for dataset, test_set in self.test_sets:
            self.invent_reference(dataset, test_set)
            for system, seed in self.translated:
                self.translate(dataset, test_set, system, seed)
        for dataset in self.study.datasets:
            self.clean(dataset)
            self.compare_splits(dataset)
            for system, seed in self.translated:
                self.score(dataset, system, seed)
            for system in self.challengers:
                self.compare(dataset, system)
            for system in self.study.translating:
                self.score_by_length(dataset, system)
            for system, seed in self.runs_of(self.study.language_models):
                self.score_perplexity(dataset, system, seed)
            for system, seed in self.runs_of(self.study.chunking):
                self.score_chunks(dataset, system, seed)
        for dataset, (system, seed) in itertools.product(self.study.datasets, self.runs_of(self.study.trained)):
            self.train(dataset, system, seed)
            self.average(dataset, system, seed)
            if self.study.datasets[dataset].generator and system in self.study.translating:
                self.score_contrasts(dataset, system, seed)
        self.annotate()

    @property
    def test_sets(self) -> list[tuple[str, str]]:
        return [(name, test_set) for name, dataset in self.study.datasets.items() for test_set in dataset.test_sets]

    @property
    def translated(self) -> list[tuple[str, int]]:
        return self.runs_of(self.study.translating)

    def runs_of(self, systems: list[str]) -> list[tuple[str, int]]:
        return [(system, seed) for system in systems for seed in self.study.seeds_of(system)]

    @property
    def challengers(self) -> list[str]:
        return [system for system in self.study.translating if system in self.study.baselines]

    def folder(self, dataset: str) -> Path:
        return self.results / f"{dataset}.{'-'.join(self.study.datasets[dataset].languages)}"

    def translation_path(self, dataset: str, test_set: str, system: str, seed: int) -> Path:
        """Of the tokens; the text stands beside them."""
        return self.folder(dataset) / "translations" / system / str(seed) / f"{test_set}.tok"

    def score_path(self, dataset: str, system: str, seed: int) -> Path:
        return self.folder(dataset) / "scores" / system / f"{seed}.json"

    def comparison_path(self, dataset: str, system: str) -> Path:
        return self.folder(dataset) / "comparisons" / f"{system}.json"

    def length_path(self, dataset: str, system: str) -> Path:
        return self.folder(dataset) / "lengths" / f"{system}.json"

    def perplexity_path(self, dataset: str, system: str, seed: int) -> Path:
        return self.folder(dataset) / "perplexities" / system / f"{seed}.json"

    def chunk_score_path(self, dataset: str, system: str, seed: int) -> Path:
        return self.folder(dataset) / "chunk_scores" / system / f"{seed}.json"

    def contrasts_path(self, dataset: str, system: str, seed: int) -> Path:
        return self.folder(dataset) / "contrasts" / system / str(seed) / "test.json"

    def splits_path(self, dataset: str) -> Path:
        return self.folder(dataset) / "splits.json"

    def record_path(self, dataset: str, system: str, seed: int) -> Path:
        return self.folder(dataset) / "models" / system / str(seed) / "training.json"

    def average_path(self, dataset: str, system: str, seed: int) -> Path:
        return self.record_path(dataset, system, seed).with_name("averaged.json")

    # ------------------------------------------------------------------------------------------------------- the stages

    def run(self, stage: str, wildcards: dict[str, str], **paths: Path | list[Path]) -> None:
        settings = STAGES[stage].from_study(self.study, wildcards).canonical_json()
        run_stage(stage, argparse.Namespace(settings=settings, cores=1, **paths))

    def translate(self, dataset: str, test_set: str, system: str, seed: int) -> None:
        folder = self.folder(dataset)
        target = self.study.datasets[dataset].target_language
        draw = random.Random(f"{dataset} {test_set} {system} {seed}")
        tokens = [
            " ".join(draw.choice(WORDS) if draw.random() < mistakes(system) else word for word in line.split(" "))
            for line in (folder / "tokens" / f"{test_set}.{target}").read_text().split("\n")[:-1]
        ]
        path = self.translation_path(dataset, test_set, system, seed)
        wildcards = {"dataset": dataset, "split": test_set, "system": system, "seed": str(seed)}
        outputs = {
            "tokens": (path, "".join(f"{line}\n" for line in tokens)),
            "text": (path.with_suffix(".txt"), "".join(f"{_detokenised(line)}\n" for line in tokens)),
        }
        self._made_by(STAGES["translate_examples"].from_study(self.study, wildcards), outputs)

    def score(self, dataset: str, system: str, seed: int, **changes: list[Path]) -> None:
        folder, target = self.folder(dataset), self.study.datasets[dataset].target_language
        test_sets = self.study.datasets[dataset].test_sets
        tokens = [self.translation_path(dataset, test_set, system, seed) for test_set in test_sets]
        inputs = {
            "tokens": tokens,
            "text": [path.with_suffix(".txt") for path in tokens],
            "reference_tokens": [folder / "tokens" / f"{test_set}.{target}" for test_set in test_sets],
            "reference": [folder / "corpus" / f"{test_set}.{target}" for test_set in test_sets],
        }
        wildcards = {"dataset": dataset, "system": system, "seed": str(seed)}
        self.run("score_system", wildcards, **{**inputs, **changes}, scores=self.score_path(dataset, system, seed))

    def compare(self, dataset: str, system: str, **metrics: list[Path]) -> None:
        self.run(
            "compare_systems",
            {"dataset": dataset, "system": system},
            baseline=self._scores_of(dataset, self.study.baseline_of(system)),
            system=self._scores_of(dataset, system),
            comparison=self.comparison_path(dataset, system),
            **{"baseline_metrics": [], "system_metrics": [], **metrics},
        )

    def _scores_of(self, dataset: str, system: str) -> list[Path]:
        return [self.score_path(dataset, system, seed) for seed in self.study.seeds_of(system)]

    def score_by_length(self, dataset: str, system: str) -> None:
        """The invented sources have the lengths of the references."""
        folder, target = self.folder(dataset), self.study.datasets[dataset].target_language
        self.run(
            "score_by_length",
            {"dataset": dataset, "system": system},
            scores=self._scores_of(dataset, system),
            source_tokens=[
                folder / "tokens" / f"{test_set}.{target}" for test_set in self.study.datasets[dataset].test_sets
            ],
            lengths=self.length_path(dataset, system),
        )

    @property
    def table_inputs(self) -> dict[str, list[Path]]:
        study = self.study
        trainings, language_models, chunking = (
            [(dataset, *run) for dataset in study.datasets for run in self.runs_of(names)]
            for names in (study.trained, study.language_models, study.chunking)
        )
        return {
            "scores": [self.score_path(name, *run) for name, run in itertools.product(study.datasets, self.translated)],
            **{key: [] for key in ("metrics", "length_penalties")},
            "comparisons": [self.comparison_path(*run) for run in itertools.product(study.datasets, self.challengers)],
            "perplexities": [self.perplexity_path(*run) for run in language_models],
            "chunks": [self.chunk_score_path(*run) for run in chunking],
            "contrasts": [self.contrasts_path("demo", *run) for run in self.translated if run[0] in study.trained],
            "averages": [self.average_path(*run) for run in trainings],
            "splits": [self.splits_path(name) for name in study.datasets],
        }

    def make_table(self, **changes: list[Path]) -> None:
        self.run(
            "make_table",
            {},
            **{**self.table_inputs, **changes},
            table=self.results / "table.json",
            markdown=self.results / "table.md",
            latex=self.results / "table.tex",
            csv=self.results / "table.csv",
        )

    @property
    def report_inputs(self) -> dict[str, list[Path]]:
        datasets = self.study.datasets
        runs = itertools.product(datasets, self.runs_of(self.study.trained))
        return {
            "records": [self.record_path(dataset, *run) for dataset, run in runs],
            "dropped": [
                self.folder(name) / "corpus" / f"{split}.dropped.tsv" for name in datasets for split in ("train", "dev")
            ],
            "splits": [self.splits_path(name) for name in datasets],
            "round_trips": [
                self.folder(name) / "tokens" / f"{test_set}.{datasets[name].target_language}.round_trip.json"
                for name, test_set in self.test_sets
            ],
            "phrases": [self.folder("demo") / "phrases" / segmenter / "train.json" for segmenter in ("ngram", "parse")],
            "chunks": [self.folder("demo") / "chunks" / "dev.json"],
            "annotators": [self.results / "annotators" / "english" / "annotator.json"],
            "lengths": [self.length_path(*run) for run in itertools.product(datasets, self.study.translating)],
            "analyses": [],
            "attention": [self.folder("demo") / "attention" / "max" / "1" / "test.arrow"]
            if "max" in self.study.systems
            else [],
            **self.shown_sentences,
        }

    @property
    def shown_sentences(self) -> dict[str, list[Path]]:
        """The inputs of the report's explorer. The units of `demo` are tokens, and those of `captions` too."""
        datasets, first = self.study.datasets, self.study.seeds[0]
        translating = self.study.translating
        source, target = (
            [self.tokens_path(name, test_set, datasets[name].language_of(side)) for name, test_set in self.test_sets]
            for side in ("source", "target")
        )
        return {
            "source": source,
            "references": target,
            "translations": [
                self.translation_path(*place, system, first) for place in self.test_sets for system in translating
            ],
            "scores": [self.score_path(*run, first) for run in itertools.product(datasets, translating)],
            "source_units": source,
            "target_units": target,
            "parses": [self.folder("demo") / "parses" / "english" / "test.0.arrow"],
            "phrase_columns": [self.folder("demo") / "phrases" / "ngram" / "test.arrow"],
            "chunk_columns": [self.folder("demo") / "chunks" / "test.arrow"],
        }

    def tokens_path(self, dataset: str, test_set: str, language: str) -> Path:
        return self.folder(dataset) / "tokens" / f"{test_set}.{language}"

    def write_report(self, **changes: list[Path]) -> None:
        inputs = {**self.report_inputs, **changes}
        self.run("write_report", {}, table=self.results / "table.json", report=self.results / "report.html", **inputs)

    # ------------------------------------------------------------------------------ what the stages before have written

    def invent_reference(self, dataset: str, test_set: str) -> None:
        folder, target = self.folder(dataset), self.study.datasets[dataset].target_language
        draw = random.Random(f"{dataset} {test_set}")
        tokens = [" ".join([*draw.choices(WORDS, k=draw.randint(*WORDS_OF_A_SENTENCE)), "."]) for _ in range(SENTENCES)]
        source = self.study.datasets[dataset].source_language
        source_tokens = [HOSTILE, *(f"number {number} {line.lower()}" for number, line in enumerate(tokens[1:], 2))]
        path = self.tokens_path(dataset, test_set, source)
        self._made_by(
            STAGES["tokenize_text"].from_study(self.study, {"dataset": dataset, "language": source}),
            {"tokens": (path, "".join(f"{line}\n" for line in source_tokens))},
        )
        round_trip = {"format": 1, "language": target, "score": 98.7654, "signature": "nrefs:1"}
        round_trip |= {"lines": SENTENCES, "changed_lines": 7}
        self._made_by(
            STAGES["tokenize_text"].from_study(self.study, {"dataset": dataset, "language": target}),
            {
                "tokens": (folder / "tokens" / f"{test_set}.{target}", "".join(f"{line}\n" for line in tokens)),
                "round_trip": (folder / "tokens" / f"{test_set}.{target}.round_trip.json", json.dumps(round_trip)),
            },
        )
        write_lines(folder / "corpus" / f"{test_set}.{target}", map(_detokenised, tokens))
        if dataset == "demo":
            self.invent_syntax(source_tokens, tokens)

    def invent_syntax(self, source: list[str], target: list[str]) -> None:
        """Parses, phrases of two tokens, and chunks of three words with the labels NP and VP, of the test set."""
        rows = np.arange(len(source))
        words = [parser_tokens(line) for line in source]
        trees = [" ".join(["(S (NP", *(f"(N {place})" for place in range(len(one)))]) + "))" for one in words]
        by_key = dict(zip(map(sentence_key, words), trees, strict=True))
        card = {"fingerprint": "ab" * 16}

        def parse(path: Path) -> None:
            write_annotations(path, list(by_key), [Annotation(tree, None) for tree in by_key.values()], card)

        def cut(path: Path) -> None:
            lengths = [len(line.split(" ")) + 1 for line in source]
            ends = Lists.of([[*range(2, length, 2), length] for length in lengths])
            text = {"source": self.tokens_path("demo", "test", "en")}
            write_columns(path, columns=["ends"], texts=text, description={}, batches=[(rows, {"ends": ends})])

        def chunk(path: Path) -> None:
            lengths = [len(line.split(" ")) + 1 for line in target]
            starts = [list(range(0, length, 3)) for length in lengths]
            labels = [[CHUNK_LABELS.index("NP" if place % 2 else "VP") for place in one] for one in starts]
            columns = {"starts": Lists.of(starts), "labels": Lists.of(labels)}
            text = {"target": self.tokens_path("demo", "test", "de")}
            description = {"labels": CHUNK_LABELS}
            write_columns(path, columns=list(columns), texts=text, description=description, batches=[(rows, columns)])

        def attend(path: Path) -> None:
            """On the second sentence: half of each word's attention is on the same place, half on the last bigram."""
            units = {side: [*lines[1].split(" "), "</s>"] for side, lines in (("source", source), ("target", target))}
            weights = np.zeros((2, len(units["target"]), 2, len(units["source"])), np.float32)
            for place in range(len(units["target"])):
                weights[:, place, 0, place] = 0.5
            weights[:, :, 1, -1] = 0.5
            one = AttentionMap(place="cross", layer=1, weights_hTNS=weights)
            write_forced(
                path, [ForcedSentence(row=1, **units, log_probs=[-1.0] * len(units["target"]), attentions=[one])]
            )

        folder = self.folder("demo")
        for stage, output, path, write in (
            ("parse_sentences", "annotations", folder / "parses" / "english" / "test.0.arrow", parse),
            ("extract_phrases", "phrases", folder / "phrases" / "ngram" / "test.arrow", cut),
            ("extract_chunks", "chunks", folder / "chunks" / "test.arrow", chunk),
            ("analyse_attention", "attention", folder / "attention" / "max" / "1" / "test.arrow", attend),
        ):
            made_of = origin(
                stage, inputs={}, settings=MeasurePhrases(segmentation="", needs_parses=False), code="0" * 16
            )
            with produce(made_of, {output: path}) as unfinished:
                write(unfinished.paths[output])

    def score_contrasts(self, dataset: str, system: str, seed: int) -> None:
        wrong = mistakes(system) + seed / 100
        groups = [(1, 2, 300, 1 - wrong / 3), (3, 4, 400, 1 - wrong / 2), (11, None, 300, 1 - wrong)]
        by_distance = [
            {"low": low, "high": high, "pairs": pairs, "right": round(pairs * share)}
            for low, high, pairs, share in groups
        ]
        total = {name: sum(group[name] or 0 for group in by_distance) for name in ("pairs", "right")}
        content = {
            "format": 2,
            "dataset": dataset,
            "contrast_set": "test",
            "system": system,
            "seed": seed,
            "kinds": [{"kind": "subj_verb_agreement", **total, "by_distance": by_distance}],
        }
        wildcards = {"dataset": dataset, "split": "test", "system": system, "seed": str(seed)}
        path = self.contrasts_path(dataset, system, seed)
        self._made_by(
            STAGES["score_contrasts"].from_study(self.study, wildcards), {"accuracy": (path, json.dumps(content))}
        )

    def score_perplexity(self, dataset: str, system: str, seed: int) -> None:
        sentences, words, tokens = 60, 600, 780
        nll = 3000 * MISTAKES[system] + 10 * seed
        perplexities = {"per_token": math.exp(nll / tokens), "per_word": math.exp(nll / (words + sentences))}
        content = {"sentences": sentences, "words": words, "tokens": tokens, "nll": nll, **perplexities}
        path = self.perplexity_path(dataset, system, seed)
        self._scored("score_perplexity", "perplexity", path, (dataset, system, seed), content)

    def score_chunks(self, dataset: str, system: str, seed: int) -> None:
        shares = dict(zip(_DECISIONS, (0.9, 0.85, 0.95, 0.897, 0.45 + seed / 100, 0.7), strict=True))
        majority = dict(zip(_DECISIONS, (0.65, 0.65, 1.0, 0.788, 0.3, 0.46), strict=True))
        content = {"sentences": 60, "positions": 660, "chunks": 429, **shares, "majority": majority}
        path = self.chunk_score_path(dataset, system, seed)
        self._scored("score_chunks", "scores", path, (dataset, system, seed), content)

    def _scored(
        self, stage: str, output: str, path: Path, run: tuple[str, str, int], content: dict[str, object]
    ) -> None:
        """The same for each test set of the data set."""
        place = dict(zip(("dataset", "system", "seed"), run, strict=True))
        test_sets = dict.fromkeys(self.study.datasets[run[0]].test_sets, content)
        wildcards = {name: str(value) for name, value in place.items()}
        file = {"format": 2, **place, "test_sets": test_sets}
        self._made_by(STAGES[stage].from_study(self.study, wildcards), {output: (path, json.dumps(file))})

    def train(self, dataset: str, system: str, seed: int) -> None:
        draw = random.Random(f"{dataset} {system} {seed}")
        model = self.study.systems[system].model
        best = 45 * (1 - mistakes(system))
        updates = range(500, 6001, 500)
        evaluations = [
            {
                "update": update,
                "dev_bleu": best * (1 - math.exp(-update / 1500)) + draw.random(),
                "dev_perplexity": 5 + 50 * math.exp(-update / 900),
                **({"dev_encoder_1_saturated": update / 10_000} if system == "max" else {}),
            }
            for update in updates
        ]
        best_update = max(evaluations, key=lambda evaluation: evaluation["dev_bleu"])["update"]
        if system in self.study.language_models:
            evaluations = [{key: one[key] for key in ("update", "dev_perplexity")} for one in evaluations]
            best_update = 6000
        content = {
            "format": 1,
            "model": model.model_dump(mode="json"),
            "parameters": 1_234_567 if system == "base" else 1_534_567,
            "updates": 6000,
            "stopped": "max_updates",
            "checkpoints": [f"state/abc/checkpoint-{update:06}.safetensors" for update in updates],
            "best_update": best_update,
            "evaluations": evaluations,
            "metrics": METRICS,
        }
        path = self.record_path(dataset, system, seed)
        wildcards = {"dataset": dataset, "system": system, "seed": str(seed)}
        self._made_by(STAGES["train_model"].from_study(self.study, wildcards), {"record": (path, json.dumps(content))})
        lines: list[dict[str, float]] = [
            {"update": update, "loss": 2 + 6 * math.exp(-update / 800) + draw.random() / 5, "tokens_per_second": 9000.0}
            for update in range(20, 6001, 20)
        ]
        lines[25:25] = [
            {"update": 500, "seconds": 9.0, "dev_bleu": 3.0, "evaluation_seconds": 0.657}
        ]  # evaluations stand between the updates
        write_lines(path.parent / METRICS, map(json.dumps, lines))

    def average(self, dataset: str, system: str, seed: int, **changes: object) -> None:
        """The mean is better than the last update by 1 BLEU, except the mean of `max`, which is worse by 2."""
        bleu = 45 * (1 - mistakes(system)) + seed
        dev = {"dev_bleu": bleu, "dev_perplexity": 5 + mistakes(system)}
        last = {"dev_bleu": bleu + (2 if system == "max" else -1), "dev_perplexity": 5.5}
        if system in self.study.language_models:
            dev.pop("dev_bleu")
            last.pop("dev_bleu")
        content = {
            "format": 1,
            **{"dataset": dataset, "system": system, "seed": seed, "sentences": 900},
            "dev_bleu_tokenizer": "13a",
            "updates": [5000, 5500, 6000],
            **dev,
            "last": {"update": 6000, **last},
            "worse_than_last": system == "max",
            **changes,
        }
        wildcards = {"dataset": dataset, "system": system, "seed": str(seed)}
        stage = STAGES["average_checkpoints"].from_study(self.study, wildcards)
        self._made_by(stage, {"scores": (self.average_path(dataset, system, seed), json.dumps(content))})

    def clean(self, dataset: str) -> None:
        folder = self.folder(dataset) / "corpus"
        dropped = ["3\tmax_words\t140", "4\tmax_words\t101", "9\tduplicate\t2"]
        contents = {
            "train": "\n".join(["# read 12345 kept 12342 dropped 3", "row\tfilter\tvalue", *dropped, ""]),
            "dev": "# read 900 kept 900 dropped 0\nrow\tfilter\tvalue\n",
        }
        for split, content in contents.items():
            wildcards = {"dataset": dataset, "split": split}
            self._made_by(
                STAGES["clean_pairs"].from_study(self.study, wildcards),
                {"dropped": (folder / f"{split}.dropped.tsv", content)},
            )

    def compare_splits(self, dataset: str) -> None:
        splits = {}
        for number, name in enumerate(self.study.datasets[dataset].held_out):
            nothing = {"pairs": 0, "sources": 0, "targets": 0}
            in_train = {"pairs": number, "sources": 2 * number, "targets": 3 * number}
            lines = {"equal_sides": 0, "blank_sources": number, "blank_targets": 0, "cut_sources": 0, "cut_targets": 0}
            in_dev = nothing if number else None
            splits[name] = {"pairs": SENTENCES, "in_train": in_train, "in_dev": in_dev, **lines}
        content = {"format": 1, "overlap": "refused", "splits": splits}
        settings = STAGES["compare_splits"].from_study(self.study, {"dataset": dataset})
        self._made_by(settings, {"counts": (self.splits_path(dataset), json.dumps(content))})

    def annotate(self) -> None:
        phrases, chunks, annotators = (self.report_inputs[name] for name in ("phrases", "chunks", "annotators"))
        for path, constituents, fallbacks in zip(phrases, (212, 431), ({}, {"too long": 2}), strict=True):
            content = {
                "segmentation": path.parent.name,
                "settings": {},
                "sentences": 120,
                "phrases": 500,
                "tokens": 1600,
                "lengths": {"1": 100, "3": 300, "6": 100},
                "fallbacks": fallbacks,
                "constituents": constituents,
                "comparable": 490,
            }
            self._made_by(
                MeasurePhrases(segmentation=path.parent.name, needs_parses=False),
                {"statistics": (path, json.dumps(content))},
            )
        counts = {"origin": "gold", "sentences": 9, "words": 90, "chunks": 60, "mean_chunk_length": 1.5, "labels": {}}
        agreement = {"parser": {"precision": 0.9, "recall": 0.95, "f1": 0.9243, "types": {}}}
        content = {**counts, "fallbacks": {}, "agreement": agreement}
        self._made_by(
            STAGES["extract_chunks"].from_study(self.study, {"dataset": "demo"}),
            {"statistics": (chunks[0], json.dumps(content))},
        )
        card = {"kind": "constituency", "origin": "trained", "language": "en", "fingerprint": "ab" * 16}
        content = {**card, "scores": {"f1": 0.9731, "f1_gold_tags": 0.9912}}
        self._made_by(
            STAGES["train_parser"].from_study(self.study, {"annotator": "english"}),
            {"annotator": (annotators[0], json.dumps(content))},
        )

    def _made_by(self, stage: Stage, outputs: dict[str, tuple[Path, str]]) -> None:
        """Writes files with the sidecars that the stage would have written."""
        paths: dict[str, Path] = {name: path for name, (path, _) in outputs.items()}
        libraries = tuple(library for library in stage.libraries if library != "torch")
        made_of = origin(stage.stage_name(), inputs={}, settings=stage, code="0" * 16, libraries=libraries)
        with produce(made_of, paths) as unfinished:
            for name, (_, text) in outputs.items():
                write_text(unfinished.paths[name], text)


def _detokenised(line: str) -> str:
    return line.replace(" .", ".").replace(" ,", ",")


def build(folder: Path, **choices: Any) -> InventedStudy:
    """A whole invented study below a folder."""
    invented = InventedStudy(study_of(**choices))
    with contextlib.chdir(folder):
        invented.build()
    return invented
