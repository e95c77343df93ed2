"""The price of a study before its run, and what jobs are likely to cost by the benchmarks of finished ones."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import invented_runs
import pytest
from invented_runs import report, took

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.sidecar import DigestedFile, Sidecar, sidecar_path
from phrasemt.artefacts.syntax import Card
from phrasemt.artefacts.training import TrainingRecord
from phrasemt.commands._prices import (
    ATTENTIONS,
    COMPILING,
    FAMILIES,
    GPUS,
    Prices,
    Rate,
    _share_missing,
    rate_here,
    rate_of,
)
from phrasemt.commands.plan import describe
from phrasemt.files.lines import write_lines
from phrasemt.runs.costs import Costs, Recorded
from phrasemt.runs.display import about, two_digits
from phrasemt.runs.notes import PlannedJob, StageNote
from phrasemt.runs.plan import Job, Plan
from phrasemt.runs.start import gpus_of
from phrasemt.study.architectures import Layers, TransformerModel, own_settings
from phrasemt.study.reading import load_study
from phrasemt.syntax.annotations import Annotation, key_array, sentence_key
from phrasemt.syntax.store import AnnotationStore

RATE = Rate("some", "a test", lambda model, operations: 312e12 * 0.3)
STUDIES = sorted((Path(__file__).parents[3] / "studies").glob("*.yaml"))

pytestmark = pytest.mark.usefixtures("here")


def job(rule: str, **wildcards: str) -> PlannedJob:
    return invented_runs.job(rule, wildcards=wildcards)


@pytest.fixture
def prices(repository: Path) -> Prices:
    return Prices(load_study(repository / "studies" / "xu2020-en-de.yaml"), RATE)


def test_a_training_costs_six_operations_for_each_parameter_and_token(prices: Prices) -> None:
    """The rule of Kaplan et al. (2020, section 2.1), without the lookup of embeddings. Source and target are equally
    long, so each target token also pays for a source position. Their rule leaves out the products of queries and keys,
    which are below 3 % at 27 positions and width 512.
    """
    width, vocabulary = 512, 32_004
    parameters = 6 * (4 + 2 * 4) * width**2 + 6 * (8 + 2 * 4) * width**2 + width * vocabulary
    hours = 6 * parameters * 25_000 * 100_000 / (312e12 * 0.3) / 3600
    found = prices.of(job("train_model", dataset="wmt14", system="base"))
    assert hours < found.gpu_hours < 1.03 * hours


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_system_of_a_study_has_a_rate_of_its_family_and_attention(path: Path) -> None:
    rate = rate_of("a100")
    for system in load_study(path).models.values():
        if own_settings(system.model.family) is not None:  # of a user (docs/adding-a-system.md)
            continue
        assert system.model.family in FAMILIES
        attention = ATTENTIONS[system.model.attention] if isinstance(system.model, Layers) else 1
        assert rate.of(system.model, 1) == pytest.approx(312e12 * FAMILIES[system.model.family] * attention)


def test_compiling_takes_time_on_gpus_that_compile_and_in_families_with_layers(repository: Path) -> None:
    zhou, xu = (load_study(repository / "studies" / f"{name}.yaml") for name in ("zhou2017-de-en", "xu2020-en-de"))
    for study, system, dataset, kind, seconds in (
        (xu, "base", "wmt14", "a100", COMPILING), (xu, "base", "wmt14", "v100", 0), (zhou, "dl4mt", "wmt15", "a100", 0),
    ):  # fmt: skip
        rate = rate_of(kind)
        training = job("train_model", dataset=dataset, system=system)
        found, without = (Prices(study, one).of(training).gpu_hours for one in (rate, replace(rate, compiling=0)))
        assert found - without == pytest.approx(seconds / 3600, abs=1e-9)
    assert f"{COMPILING} s to compile a Transformer; " in next(Prices(xu, rate_of("a100")).basis())
    assert "compile" not in next(Prices(xu, rate_here(on_gpu=False)).basis())


@pytest.mark.parametrize("units", [False, True])
def test_a_cpu_with_units_for_bfloat16_is_pointed_out(
    repository: Path, monkeypatch: pytest.MonkeyPatch, units: bool
) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_bf16": units})
    study = load_study(repository / "studies" / "tatoeba-en-de.yaml")
    named, *others = study.models
    study.models[named].training.model_fields_set.add("precision")
    faster = [line for line in Prices(study, rate_here(on_gpu=False)).basis() if line.startswith("faster: ")]
    assert len(faster) == units
    assert all(f" to train {', '.join(others)} (" in line for line in faster)
    narrow = load_study(repository / "studies" / "demo-composition.yaml")  # width 128, which gains little
    assert not any("faster: " in line for line in Prices(narrow, rate_here(on_gpu=False)).basis())
    assert not any("faster: " in line for line in Prices(study, rate_of("a100")).basis())


def test_text_stages_cost_lines_and_unknown_numbers_are_named(prices: Prices) -> None:
    # Europarl v7, Common Crawl and News Commentary v9 have 1,920,209 + 2,399,123 + 201,288 pairs.
    pairs = 4_520_620
    found = prices.of(job("clean_pairs", dataset="wmt14", split="train", source="en", target="de"))
    assert found.core_hours == pytest.approx((2 + pairs / 82_000) / 3600)
    assert not prices.unknown
    parses = prices.of(job("parse_sentences", dataset="wmt14", split="train", annotator="english"))
    assert parses.core_hours == pytest.approx((2 + pairs // 64 / 10) / 3600)  # a published parser, 64 jobs
    texts = job("extract_text", corpus="yandex-en-ru", part="ru-en", language="ru")
    assert prices.of(texts).core_hours == pytest.approx(2 / 3600)
    assert prices.unknown == {"yandex-en-ru ru-en"}


def test_sentences_in_the_parse_cache_cost_nothing(prices: Prices, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHRASEMT_CACHE", "cache")
    parses = job("parse_sentences", dataset="wmt14", split="train", annotator="english")
    assert prices.share_to_annotate(parses) == 1, "no tokens yet"
    sentences = [f"sentence {number}" for number in range(2_000)]
    paths = Paths.of(prices.study, "wmt14")
    tokens, place = Path(paths.tokens.at(split="train", language="en")), Path(paths.card.at(annotator="english"))
    for path in (tokens, place):
        path.parent.mkdir(parents=True)
    write_lines(tokens, sentences)
    card = Card(kind="constituency", origin="trained", language="en", stanza="0", files={}, options={})
    card.write(place)
    assert prices.share_to_annotate(parses) == 1, "no cache yet"
    keys = [sentence_key(line.split()) for line in sentences]
    AnnotationStore(Path("cache"), card.description).add(key_array(keys), [Annotation("(S x)", None)] * len(keys))
    _share_missing.cache_clear()
    assert prices.share_to_annotate(parses) == 0
    write_lines(tokens, [line for sentence in sentences for line in (sentence, f"another {sentence}")])
    _share_missing.cache_clear()
    assert 0.2 < prices.share_to_annotate(parses) < 0.8
    assert not prices.in_full
    tokens.unlink()
    assert prices.share_to_annotate(parses) == 1, "no tokens to look up"
    assert any(line.startswith("priced in full: parse_sentences; ") for line in prices.basis())
    assert prices.share_to_annotate(job("pack_examples", dataset="wmt14", split="train")) == 1


def test_a_text_of_one_language_takes_half_the_disk_of_pairs(prices: Prices, repository: Path) -> None:
    of_words = Prices(load_study(repository / "studies" / "nguyen2020-lm1b.yaml"), RATE)
    packing = job("pack_examples", dataset="wmt14", split="train")
    assert prices.of(packing).bytes == 240 * 4_520_620
    (name,) = of_words.study.datasets
    assert of_words.of(job("pack_examples", dataset=name, split="train")).bytes == 120 * 30_301_028


def test_days_are_those_of_the_longest_training_when_there_are_many_gpus(prices: Prices) -> None:
    jobs = [job("train_model", dataset="wmt14", system=name) for name in ("base", "base")]
    plan = Plan(study="s", datasets=["wmt14"], jobs=[Job(planned=one, reasons=[]) for one in jobs])
    days = prices.of(jobs[0]).gpu_hours / 24
    for gpus, expected in ((1, 2 * days), (2, days), (8, days)):
        lines = list(describe(plan, prices, gpus))
        assert [line.split() for line in lines if line.startswith("  base ")] == [
            ["base", f"~{two_digits(48 * days)}", f"~{two_digits(48 * days)}"]
        ]
        takes = [about(24 * 3600 * one) for one in (expected, days)]
        hint = "; more GPUs for base alone shorten it (docs/clusters.md)" if gpus == 8 else ""
        assert f"{takes[0]} on {gpus} x some; the longest job, base, takes {takes[1]}{hint}" in lines
    assert GPUS["a100"] == 312  # data sheet of the A100: BFLOAT16 tensor core, 312 TFLOPS (624 with sparsity)


def _finished_training(host: str, device: str, tokens_per_second: float, *, seed: int, processes: int = 1) -> None:
    """What a training of a Transformer of base size leaves, as far as its rate is concerned."""
    folder = Path(f"results/other/d.en-de/models/base/{seed}")
    vocabulary = Path("vocabulary.tsv")
    write_lines(vocabulary, ["x"] * 32_004)
    (folder / "state" / "abc").mkdir(parents=True)
    record = {"metrics": "state/abc/metrics.jsonl", "model": {"family": "transformer"}, "evaluations": []}
    record |= {"parameters": 9, "precision": "float32", "updates": 9, "stopped": "max_updates", "skipped": 0}
    record |= {"processes": processes, "micro_batch_positions": [9], "micro_batches_per_update": 1, "checkpoints": []}
    TrainingRecord.model_validate(record).write(folder / "training.json")
    inputs = {f"{side}_vocabulary": [DigestedFile(path=str(vocabulary), sha256="")] for side in ("source", "target")}
    sidecar = Sidecar(stage="train_model", settings={}, code="", versions={}, inputs=inputs, outputs={})
    sidecar.write(sidecar_path(folder / "training.json"))
    training = report(device=device, processes=processes, tokens_per_second=tokens_per_second)
    StageNote(stage="train_model", host=host, training=training).write(folder / "state" / "abc" / "note.json")


def test_finished_trainings_of_similar_models_give_the_rate_of_a_gpu() -> None:
    """Six operations for each parameter and token, as above; two processes share their tokens."""
    _finished_training("node1", "NVIDIA A100", 40_000, seed=1)
    _finished_training("node1", "NVIDIA A100", 60_000, seed=2)
    _finished_training("node1", "NVIDIA A100", 160_000, seed=3, processes=2)
    _finished_training("laptop", "cpu", 100, seed=4)
    Path("results/other/d.en-de/models/base/5").mkdir()
    Path("results/other/d.en-de/models/base/5/training.json").write_text("of another version")
    operations = 6 * (6 * (4 + 2 * 4) * 512**2 + 6 * (8 + 2 * 4) * 512**2 + 512 * 32_004)
    rate = rate_here(on_gpu=True)
    assert operations * 60_000 < rate.of(TransformerModel(), operations) < 1.03 * operations * 60_000
    assert (rate.device, rate.on_gpu) == ("NVIDIA A100", True)
    assert "rates of 3 finished trainings on NVIDIA A100 of node1; for models unlike theirs " in rate.basis
    for unlike, size in ((TransformerModel(), operations / 9), (TransformerModel(attention="ngrams"), operations)):
        assert rate.of(unlike, size) == rate_of("a100").of(unlike, size)


def test_a_machine_without_gpus_costs_hours_of_its_cores(repository: Path) -> None:
    """By its own trainings, which have one core, or else by a built-in figure, which is lower for narrow models."""
    rate = rate_here(on_gpu=False)
    wide, narrow = (TransformerModel(width=width, heads=1) for width in (1024, 64))
    assert rate.of(wide, 1) == 4 * rate.of(narrow, 1)
    prices = Prices(load_study(repository / "config.yaml"), rate)
    for found in (
        prices.of(job("train_model", dataset="demo", system="base")),
        prices.of(job("translate_examples", dataset="demo", system="base", split="test")),
    ):
        assert found.core_hours > 0
        assert found.gpu_hours == 0
    _finished_training("elsewhere", "cpu", 1_000, seed=1)
    assert rate_here(on_gpu=False).basis == rate.basis
    _finished_training(platform.node(), "cpu", 1_000, seed=2)
    assert "rates of 1 finished trainings on cpu of " in rate_here(on_gpu=False).basis


def test_the_same_job_counts_first_then_its_rule_and_other_studies_never() -> None:
    own, other = invented_runs.job("train_model", "a"), invented_runs.job("train_model", "b", threads=4, gpus=1)
    took(own, 1800)
    recorded = Recorded("demo")
    assert recorded.seconds(own) == 1800
    assert recorded.seconds(other) == 1800
    assert Recorded("mine").seconds(invented_runs.job("train_model", "c")) is None
    assert recorded.seconds(invented_runs.job("score_system")) is None
    estimate = Costs(core_hours=7, bytes=9)
    assert recorded.of(other, estimate) == Costs(core_hours=2.0, gpu_hours=0.5, bytes=9)
    assert recorded.of(invented_runs.job("score_system"), estimate) == Costs(core_hours=7, bytes=9, estimated=1)


@pytest.mark.parametrize("text", ["", "s\n", "s\tx\n-\t1\n", "\x00\n"])
def test_damaged_records_are_no_records(text: str) -> None:
    planned = invented_runs.job("compare_systems")
    took(planned, 1)
    Path(planned.benchmark or "").write_text(text)
    assert Recorded("demo").seconds(planned) is None


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ({}, 0),
        ({"gpu": 4, "gres": "gpu:2"}, 4),
        ({"gres": "gpu:a100:2", "nodes": 2}, 4),
        ({"slurm_extra": "--gpus-per-node=4"}, 4),
    ],
)
def test_gpus_are_counted_over_all_nodes(resources: dict[str, Any], gpus: int) -> None:
    assert gpus_of(SimpleNamespace(resources=resources)) == gpus


def test_estimates_have_two_digits() -> None:
    assert [about(one) for one in (0.4, 93, 2700, 7200, 656_640)] == [
        f"about {text}" for text in ("0.40 seconds", "93 seconds", "45 minutes", "2.0 hours", "7.6 days")
    ]
    assert [two_digits(one) for one in (0, 0.0521, 1.449, 340.98, 12_345)] == ["0", "0.052", "1.4", "340", "12,000"]
