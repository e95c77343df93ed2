"""Files of stages that a study without a training needs: references, parses, records, scores of models."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np

from phrasemt.artefacts.card import Card
from phrasemt.artefacts.columns import ChunkColumns, PhraseColumns
from phrasemt.artefacts.corpus import ComparedSplits, DroppedPair, DroppedPairs, Shared, SplitCounts
from phrasemt.artefacts.scores import OfTestSets
from phrasemt.artefacts.sidecar import Origin, library_versions, produce
from phrasemt.artefacts.syntax import ChunkStatistics, PhraseStatistics
from phrasemt.artefacts.text import RoundTrip
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
    ChunkAccuracies,
    ChunkAccuracy,
    ChunkDecisions,
    ContrastAccuracy,
    ContrastDecisions,
    DistanceCounts,
    KindCounts,
    Perplexity,
    PerplexityScores,
)
from phrasemt.files.attention import AttentionMap, ForcedSentence, write_forced
from phrasemt.files.columns import RaggedArray
from phrasemt.files.lines import write_lines, write_text
from phrasemt.stages import STAGES
from phrasemt.stages.stage import Stage
from phrasemt.stages.syntax import MeasurePhrases
from phrasemt.study.schema import Study
from phrasemt.symbols import CHUNK_LABELS, escape
from phrasemt.syntax.annotations import Annotation, write_annotations
from phrasemt.syntax.sentences import parser_tokens, sentence_key
from phrasemt.workflow.paths import Paths

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


class InventedFiles:
    """What the stages before scoring would have written, below the current folder."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.results = Path("results", study.study)

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

    def tokens_path(self, dataset: str, test_set: str, language: str) -> Path:
        return self.folder(dataset) / "tokens" / f"{test_set}.{language}"

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
        round_trip = RoundTrip(language=target, score=98.7654, signature="nrefs:1", lines=SENTENCES, changed_lines=7)
        self._made_by(
            STAGES["tokenize_text"].from_study(self.study, {"dataset": dataset, "language": target}),
            {
                "tokens": (folder / "tokens" / f"{test_set}.{target}", "".join(f"{line}\n" for line in tokens)),
                "round_trip": (folder / "tokens" / f"{test_set}.{target}.round_trip.json", round_trip),
            },
        )
        write_lines(folder / "corpus" / f"{test_set}.{target}", map(detokenised, tokens))
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
            ends = RaggedArray.of([[*range(2, length, 2), length] for length in lengths])
            PhraseColumns.write(path, self.tokens_path("demo", "test", "en"), {}, [(rows, {"ends": ends})])

        def chunk(path: Path) -> None:
            lengths = [len(line.split(" ")) + 1 for line in target]
            starts = [list(range(0, length, 3)) for length in lengths]
            labels = [[CHUNK_LABELS.index("NP" if place % 2 else "VP") for place in one] for one in starts]
            columns = {"starts": RaggedArray.of(starts), "labels": RaggedArray.of(labels)}
            ChunkColumns.write(path, self.tokens_path("demo", "test", "de"), "gold", [(rows, columns)])

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
            made_of = Origin.of(
                stage, inputs={}, settings=MeasurePhrases(segmentation="", needs_parses=False), code="0" * 16
            )
            with produce(made_of, {output: path}) as unfinished:
                write(unfinished.paths[output])

    def score_contrasts(self, dataset: str, system: str, seed: int) -> None:
        wrong = mistakes(system) + seed / 100
        groups = [(1, 2, 300, 1 - wrong / 3), (3, 4, 400, 1 - wrong / 2), (11, None, 300, 1 - wrong)]
        by_distance = [
            DistanceCounts(low=low, high=high, pairs=pairs, right=round(pairs * share))
            for low, high, pairs, share in groups
        ]
        pairs, right = sum(group.pairs for group in by_distance), sum(group.right for group in by_distance)
        kind = KindCounts(kind="subj_verb_agreement", pairs=pairs, right=right, by_distance=by_distance)
        distances = [group.low for group in by_distance for _ in range(group.pairs)]
        decided = [place < group.right for group in by_distance for place in range(group.pairs)]
        decisions = ContrastDecisions(kinds=[0] * pairs, distances=distances, right=decided)
        about = {"dataset": dataset, "contrast_set": "test", "system": system, "seed": seed}
        content = ContrastAccuracy(**about, kinds=[kind], decisions=decisions)
        wildcards = {"dataset": dataset, "split": "test", "system": system, "seed": str(seed)}
        path = self.contrasts_path(dataset, system, seed)
        self._made_by(STAGES["score_contrasts"].from_study(self.study, wildcards), {"accuracy": (path, content)})

    def score_perplexity(self, dataset: str, system: str, seed: int) -> None:
        sentences, words, tokens = 60, 600, 780
        nll = 3000 * MISTAKES[system] + 10 * seed
        perplexities = {"per_token": math.exp(nll / tokens), "per_word": math.exp(nll / (words + sentences))}
        part = Perplexity(sentences=sentences, words=words, tokens=tokens, nll=nll, **perplexities)
        self._scored("score_perplexity", "perplexity", PerplexityScores, (dataset, system, seed), part)

    def score_chunks(self, dataset: str, system: str, seed: int) -> None:
        shares = dict(zip(_DECISIONS, (0.9, 0.85, 0.95, 0.897, 0.45 + seed / 100, 0.7), strict=True))
        majority = dict(zip(_DECISIONS, (0.65, 0.65, 1.0, 0.788, 0.3, 0.46), strict=True))
        part = ChunkAccuracy(sentences=60, positions=660, chunks=429, **shares, majority=ChunkDecisions(**majority))
        self._scored("score_chunks", "scores", ChunkAccuracies, (dataset, system, seed), part)

    def _scored(
        self, stage: str, output: str, kind: type[OfTestSets[Any]], run: tuple[str, str, int], part: Any
    ) -> None:
        """The same for each test set of the data set."""
        dataset, system, seed = run
        content = kind(
            dataset=dataset,
            system=system,
            seed=seed,
            test_sets=dict.fromkeys(self.study.datasets[dataset].test_sets, part),
        )
        wildcards = {"dataset": dataset, "system": system, "seed": str(seed)}
        path = Path(Paths.of(self.study, dataset).of_kind(kind).at(system=system, seed=seed))
        self._made_by(STAGES[stage].from_study(self.study, wildcards), {output: (path, content)})

    def train(self, dataset: str, system: str, seed: int) -> None:
        draw = random.Random(f"{dataset} {system} {seed}")
        model = self.study.systems[system].model
        best = 45 * (1 - mistakes(system))
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
            model=model,
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
        path = self.record_path(dataset, system, seed)
        wildcards = {"dataset": dataset, "system": system, "seed": str(seed)}
        self._made_by(STAGES["train_model"].from_study(self.study, wildcards), {"record": (path, content)})
        reports: list[UpdateReport | EvaluationReport] = [
            UpdateReport(
                update=update,
                seconds=0,
                memory_mib=100,
                epoch=1,
                loss=2 + 6 * math.exp(-update / 800) + draw.random() / 5,
                perplexity=9,
                learning_rate=0.001,
                tokens_per_second=9000,
                skipped=0,
            )
            for update in range(20, 6001, 20)
        ]
        evaluation = EvaluationReport(seconds=9, memory_mib=100, evaluation_seconds=0.657, evaluation=evaluations[0])
        (path.parent / METRICS).parent.mkdir(parents=True)
        Metrics.of([*reports, evaluation]).write(path.parent / METRICS)

    def average(self, dataset: str, system: str, seed: int, **changes: object) -> None:
        """The mean is better than the last update by 1 BLEU, except the mean of `max`, which is worse by 2."""
        bleu = 45 * (1 - mistakes(system)) + seed
        lm = system in self.study.language_models
        content = AverageScores(
            dataset=dataset,
            system=system,
            seed=seed,
            sentences=900,
            dev_bleu_tokenizer="13a",
            updates=[5000, 5500, 6000],
            dev_bleu=None if lm else bleu,
            dev_perplexity=5 + mistakes(system),
            last=LastUpdate(
                update=6000, dev_bleu=None if lm else bleu + (2 if system == "max" else -1), dev_perplexity=5.5
            ),
            worse_than_last=system == "max",
        ).model_copy(update=changes)
        wildcards = {"dataset": dataset, "system": system, "seed": str(seed)}
        stage = STAGES["average_checkpoints"].from_study(self.study, wildcards)
        self._made_by(stage, {"scores": (self.average_path(dataset, system, seed), content)})

    def clean(self, dataset: str) -> None:
        folder = self.folder(dataset) / "corpus"
        dropped = [
            DroppedPair(3, "max_words", "140"),
            DroppedPair(4, "max_words", "101"),
            DroppedPair(9, "duplicate", "2"),
        ]
        contents = {
            "train": DroppedPairs.head(read=12345, kept=12342)
            + "".join(f"{DroppedPairs.line(pair)}\n" for pair in dropped),
            "dev": DroppedPairs.head(read=900, kept=900),
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
            splits[name] = SplitCounts(
                pairs=SENTENCES,
                in_train=Shared(pairs=number, sources=2 * number, targets=3 * number),
                in_dev=Shared(pairs=0, sources=0, targets=0) if number else None,
                equal_sides=0,
                blank_sources=number,
                blank_targets=0,
                cut_sources=0,
                cut_targets=0,
            )
        content = ComparedSplits(overlap="refused", splits=splits)
        settings = STAGES["compare_splits"].from_study(self.study, {"dataset": dataset})
        self._made_by(settings, {"counts": (self.splits_path(dataset), content)})

    def annotate(self) -> None:
        phrases, chunks, annotators = (self.report_inputs[name] for name in ("phrases", "chunks", "annotators"))
        for path, constituents, fallbacks in zip(phrases, (212, 431), ({}, {"too long": 2}), strict=True):
            content = PhraseStatistics(
                segmentation=path.parent.name,
                settings={},
                sentences=120,
                phrases=500,
                tokens=1600,
                lengths={1: 100, 3: 300, 6: 100},
                fallbacks=fallbacks,
                constituents=constituents,
                comparable=490,
            )
            self._made_by(
                MeasurePhrases(segmentation=path.parent.name, needs_parses=False), {"statistics": (path, content)}
            )
        content = ChunkStatistics(
            origin="gold", sentences=9, words=90, chunks=60, mean_chunk_length=1.5, labels={}, fallbacks={}
        )
        self._made_by(
            STAGES["extract_chunks"].from_study(self.study, {"dataset": "demo"}), {"statistics": (chunks[0], content)}
        )
        card = Card(
            kind="constituency",
            origin="trained",
            language="en",
            stanza="1",
            files={},
            options={},
            scores={"f1": 0.9731},
        )
        self._made_by(
            STAGES["train_parser"].from_study(self.study, {"annotator": "english"}),
            {"annotator": (annotators[0], card)},
        )

    def _made_by(self, stage: Stage, outputs: dict[str, tuple[Path, Any]]) -> None:
        """Writes files with the sidecars that the stage would have written."""
        paths: dict[str, Path] = {name: path for name, (path, _) in outputs.items()}
        libraries = tuple(library for library in stage.libraries if library != "torch")
        made_of = Origin.of(
            stage.stage_name(), inputs={}, settings=stage, code="0" * 16, versions=library_versions(libraries)
        )
        with produce(made_of, paths) as unfinished:
            for name, (_, content) in outputs.items():
                if isinstance(content, str):
                    write_text(unfinished.paths[name], content)
                else:
                    content.write(unfinished.paths[name])


def detokenised(line: str) -> str:
    return line.replace(" .", ".").replace(" ,", ",")
