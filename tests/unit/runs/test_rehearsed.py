"""The price of a study from the measurements of its rehearsal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import invented_runs
import pytest
from invented_runs import report, took

from phrasemt.artefacts.corpus import DroppedPairs
from phrasemt.artefacts.training import Evaluation, EvaluationReport, Metrics, TrainingRecord, UpdateReport
from phrasemt.errors import PhrasemtError
from phrasemt.runs.notes import StageNote, stage_note
from phrasemt.runs.plan import Job, Plan
from phrasemt.study.scaling import rehearsal
from phrasemt.study.schema import Study
from phrasemt.verbs._rehearsed import Rehearsed, describe_rehearsed
from phrasemt.workflow.paths import Paths

pytestmark = pytest.mark.usefixtures("here")

NAMES = {"dataset": "d", "source": "en", "target": "de"}
VALUES = {
    "study": "s",
    "datasets": {
        "d": {
            "source_language": "en",
            "target_language": "de",
            "generator": {"train": 400_000, "dev": 100, "test": 1000},
            "parse_jobs": 4,
        }
    },
    "systems": {"base": {"model": {"family": "transformer"}, "training": {"max_updates": 600, "evaluate_every": 200}}},
}
STUDY = Study.model_validate(VALUES)
REHEARSAL = Study.model_validate(rehearsal(VALUES, STUDY))
OURS, REHEARSED = Paths(STUDY.study, **NAMES), Paths(REHEARSAL.study, **NAMES)


def job(rule: str, inputs: Sequence[str], outputs: Sequence[str] = (), gpus: int = 0, **names: str) -> Job:
    """A job of the study that reads these files of its data set."""
    folder = "results/s/d.en-de"
    snakemakes = SimpleNamespace(
        wildcards=NAMES | names, resources={"mem_mb": 2000}, input=[f"{folder}/{one}" for one in inputs]
    )
    planned = invented_runs.job(rule, outputs=[f"{folder}/{one}" for one in outputs], threads=2, gpus=gpus)
    return Job(planned=planned, reasons=[], snakemakes=snakemakes)


def rehearsed(rule: str, seconds: float, *, from_cache: bool = False, **names: str) -> None:
    """A finished job of the rehearsal."""
    planned = invented_runs.job(
        rule,
        benchmark=str(REHEARSED.benchmark(rule).within(**NAMES | names)),
        log=str(REHEARSED.log(rule).within(**NAMES | names)),
    )
    took(planned, seconds)
    assert planned.log is not None
    StageNote(stage=rule, from_cache=from_cache).write(stage_note(planned.log))


@pytest.fixture(autouse=True)
def splits(here: Path) -> None:
    """Of 4,000 pairs of train and 100 of a test set, the study has 100 and 10 times as many."""
    for split, kept, times in (("train", 4000, 100), ("dev", 100, 1), ("test", 100, 10)):
        path = Path(REHEARSED.dropped_pairs.at(split=split))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(DroppedPairs.head(read=times * kept, kept=kept, left_out=(times - 1) * kept))


def test_time_and_disk_grow_with_the_pairs_after_a_start(here: Path) -> None:
    """20 s before the first sentence and 0.1 s for each: 4 jobs of 100,000 sentences take 10,020 s each."""
    parses = [
        *(
            job("parse_sentences", ["sentences/train.en.arrow"], annotator="p", split="train", job=f"{n}")
            for n in "0123"
        ),
        job("parse_sentences", ["sentences/dev.en.arrow"], annotator="p", split="dev", job="0"),
    ]
    for number in range(4):
        rehearsed("parse_sentences", 20 + 100, annotator="p", split="train", job=str(number))
    rehearsed("parse_sentences", 20 + 10, annotator="p", split="dev", job="0")
    (here / REHEARSED.rows.at(split="train")).write_text("12345\n")
    cleaned = job("clean_pairs", ["raw/train.en", "raw/train.de"], ["corpus/train.rows"], split="train")
    rehearsed("clean_pairs", 36, split="train")
    merged = job("learn_subwords", ["tokens/train.en", "tokens/train.de", "tokens/train.en.round_trip.json"])
    rehearsed("learn_subwords", 16)
    table = job("make_table", [])
    rehearsed("make_table", 6)  # the fastest job of all
    prices = Rehearsed(STUDY, REHEARSAL, [*parses, cleaned, merged, table])
    hours = [prices.of(one).core_hours * 3600 / 2 for one in [*parses, cleaned, merged, table]]
    assert hours == pytest.approx([*[20 + 10_000] * 4, 30, 36, 6 + 1000, 6])  # all pairs are cleaned in the rehearsal
    assert prices.of(cleaned).bytes == 600
    assert prices.rate(parses[0]) == pytest.approx(10)
    assert not prices.missing


def _trained(device: str) -> None:
    """60 updates of 0.5 s, of which the first 20 took 30 s more; an evaluation of 8 s; 12 s to begin and to end."""
    names = NAMES | {"system": "base", "seed": "1"}
    record = Path(REHEARSED.training_record.within(**names))
    (record.parent / "state/abc").mkdir(parents=True)
    TrainingRecord.model_validate(
        {
            "model": STUDY.models["base"].model.model_dump(), "parameters": 10**6, "precision": "bfloat16",
            "updates": 60, "stopped": "max_updates", "skipped": 0, "processes": 1, "micro_batch_positions": [9],
            "micro_batches_per_update": 1, "checkpoints": [], "evaluations": [], "metrics": "state/abc/metrics.jsonl",
        }
    ).write(record)  # fmt: skip
    same = {"epoch": 1, "loss": 9, "perplexity": 9, "learning_rate": 1, "skipped": 0, "memory_mib": 5000}
    updates = [
        UpdateReport(update=update, seconds=30 + update / 2, tokens_per_second=speed, **same)
        for update, speed in ((20, 9), (40, 50_000), (60, 50_000))
    ]
    evaluation = Evaluation(update=60, dev_bleu=0, dev_perplexity=9)
    evaluations = [EvaluationReport(seconds=68, memory_mib=6000, evaluation_seconds=8, evaluation=evaluation)]
    Metrics.of([*updates, *evaluations]).write(record.parent / "state/abc/metrics.jsonl")
    StageNote(stage="train_model", training=report(device=device)).write(record.parent / "state/abc/note.json")
    rehearsed("train_model", 80, system="base", seed="1")


@pytest.mark.parametrize(("device", "told"), [("NVIDIA L40S", True), ("cpu", False)])
def test_a_training_is_counted_in_updates_and_evaluations(device: str, told: bool) -> None:
    """600 updates of 0.5 s and 3 evaluations of 8 s, after 80 - 60 x 0.5 - 8 s that do not depend on them."""
    _trained(device)
    training = job("train_model", ["examples/train.arrow", "examples/dev.arrow"], gpus=1, system="base", seed="1")
    other = job("train_model", ["examples/train.arrow", "examples/dev.arrow"], gpus=1, system="base", seed="2")
    prices = Rehearsed(STUDY, REHEARSAL, [training, other])
    assert prices.of(training).gpu_hours * 3600 == pytest.approx(42 + 600 * 0.5 + 3 * 8)
    assert prices.of(other).gpu_hours == prices.of(training).gpu_hours
    found = prices.training("d", "base")
    assert found is not None
    assert found.memory == 6000
    # 32,000 merges are estimated; six operations for each parameter that is multiplied (tests/unit/runs/test_price.py)
    parameters = 6 * (4 + 2 * 4) * 512**2 + 6 * (8 + 2 * 4) * 512**2 + 512 * 32_004
    assert 1 < found.operations / (6 * parameters * 50_000) < 1.03
    assert found.share_of_peak == (pytest.approx(found.operations / 362e12) if told else None)
    plan = Plan(study="s", datasets=["d"], jobs=[training, other], workflow=None)
    lines = list(describe_rehearsed(plan, prices, 8))
    (row,) = (line.split() for line in lines if line.startswith("  base "))
    assert row[1:5] == ["0.20", "0.20", "0.500", "50,000"]
    assert "the rehearsal ran every rule of this plan" in lines


def test_what_the_rehearsal_did_not_measure_is_told() -> None:
    fetched = job("fetch_corpus", [], corpus="c", file="f")
    rehearsed("fetch_corpus", 0, from_cache=True, corpus="c", file="f")
    packed = job("pack_examples", ["subwords/train.en"], split="train")
    rehearsed("pack_examples", 0, from_cache=True, split="train")
    never = job("score_system", ["translations/base/1/test.tok"], system="base", seed="1")
    prices = Rehearsed(STUDY, REHEARSAL, [fetched, packed, never])
    assert sum(prices.of(one).core_hours for one in (fetched, packed, never)) == 0
    assert (prices.free, prices.missing) == ({"fetch_corpus": 1}, {"pack_examples": 1, "score_system": 1})


def test_another_study_and_one_that_has_not_run_are_refused() -> None:
    with pytest.raises(PhrasemtError, match="this rehearsal has not run"):
        Rehearsed(STUDY, REHEARSAL, [])
    other = Study.model_validate(VALUES | {"datasets": {"e": VALUES["datasets"]["d"]}})  # type: ignore[index]
    with pytest.raises(PhrasemtError, match="the rehearsal of another study"):
        Rehearsed(STUDY, other, [])
