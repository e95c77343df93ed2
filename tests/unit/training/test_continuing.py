"""A training continues the state of an earlier training whose settings decide the same updates."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from trainings import assert_equal_runs, run, settings_of

from phrasemt.artefacts.columns import Examples
from phrasemt.artefacts.training import Evaluation
from phrasemt.batching.pack import pack_examples
from phrasemt.errors import StoppedError
from phrasemt.models.weights import load_tensors
from phrasemt.stages.subwords import PackExamples
from phrasemt.study.schema import Adam, Training
from phrasemt.training.checkpoint import WITHOUT_EFFECT_ON_UPDATES
from phrasemt.training.evaluator import Evaluator
from phrasemt.training.trainer import Trainer


@pytest.fixture
def updates(monkeypatch):
    """The numbers of all updates that are done."""
    done, begin = [], Trainer.begin

    def counted(self, number, *update_and_share):
        done.append(number)
        return begin(self, number, *update_and_share)

    monkeypatch.setattr(Trainer, "begin", counted)
    return done


# Settings of the first and of the second training. Neither 10 nor 30 is a multiple of all intervals.
CONTINUED = {
    "more updates": ({"max_updates": 10}, {"max_updates": 16}),
    "more updates, reports in between": ({"max_updates": 30}, {"max_updates": 42}),
    "more updates and checkpoints": (
        {"max_updates": 10, "checkpoint_every": 3},
        {"max_updates": 16, "checkpoint_every": 2, "average_last": 3},
    ),
    "the mean of fewer checkpoints": ({"average_last": 3}, {"average_last": 1}),
    "fewer evaluations": ({"evaluate_every": 2}, {"evaluate_every": 6}),
    "more updates and the best checkpoints": (
        {"max_updates": 8, "average_best": 2, "best_by": "perplexity"},
        {"max_updates": 16, "average_best": 2, "best_by": "perplexity"},
    ),
    "a checkpoint that only the previous state keeps": (
        {"max_updates": 12, "average_last": 1},
        {"max_updates": 16, "average_last": 3},
    ),
    "early stopping that cannot have come yet": ({"max_updates": 10}, {"max_updates": 16, "early_stopping": 9}),
}


@pytest.mark.parametrize(("before", "after"), CONTINUED.values(), ids=CONTINUED)
def test_a_continued_training_equals_a_training_from_the_first_update(tiny_data, tmp_path, updates, before, after):
    earlier, later = settings_of(**before), settings_of(**after)
    run(tiny_data, tmp_path / "continued", earlier)
    first = earlier.training.max_updates
    updates.clear()
    continued = run(tiny_data, tmp_path / "continued", later)
    assert updates == list(range(first + 1, later.training.max_updates + 1))
    whole = run(tiny_data, tmp_path / "whole", later)
    assert_equal_runs(continued, whole)
    assert continued[0] == whole[0], "the records are equal"
    for name in (*whole[0]["checkpoints"], f"{whole[0]['metrics'].rpartition('/')[0]}/latest.safetensors"):
        one, other = (load_tensors(tmp_path / folder / name) for folder in ("continued", "whole"))
        assert all(torch.equal(one[0][weight], other[0][weight]) for weight in one[0].keys() | other[0].keys())


NOT_CONTINUED = {
    "fewer updates": ({"max_updates": 12}, {"max_updates": 8}, "max_updates is 8"),
    "a checkpoint of the new mean is gone": (
        {"max_updates": 16, "average_last": 1},
        {"max_updates": 20, "average_last": 4},
        "checkpoint-000008.safetensors, which is averaged, is gone",
    ),
    "scores at other updates decide": (
        {"evaluate_every": 4},
        {"max_updates": 16, "evaluate_every": 3, "early_stopping": 9},
        "no score on this dev set after update 3",
    ),
    "a checkpoint of the best is gone": (
        {"max_updates": 16},
        {"max_updates": 20, "average_best": 4},
        "checkpoint-000004.safetensors, which is averaged, is gone",
    ),
}


@pytest.mark.parametrize(("before", "after", "reason"), NOT_CONTINUED.values(), ids=NOT_CONTINUED)
def test_a_training_that_would_end_otherwise_starts_anew(tiny_data, tmp_path, updates, caplog, before, after, reason):
    caplog.set_level("INFO", "phrasemt")
    earlier, later = settings_of(**before), settings_of(**after)
    run(tiny_data, tmp_path / "changed", earlier)
    updates.clear()
    changed = run(tiny_data, tmp_path / "changed", later)
    assert updates == list(range(1, later.training.max_updates + 1))
    assert reason in caplog.text
    assert changed[0] == run(tiny_data, tmp_path / "whole", later)[0]
    updates.clear()
    run(tiny_data, tmp_path / "changed", earlier)
    assert updates == [], "a return to earlier settings finds their state"


def test_early_stopping_with_more_patience_goes_on_and_with_less_starts_anew(
    tiny_data, tmp_path, updates, monkeypatch, caplog
):
    caplog.set_level("INFO", "phrasemt")
    scores = {2: 5.0, 4: 7.0, 6: 6.0, 8: 6.5, 10: 9.0, 12: 8.0, 14: 8.5}
    monkeypatch.setattr(
        Evaluator,
        "__call__",
        lambda self, model, update: Evaluation(update=update, dev_bleu=scores[update], dev_perplexity=2.0),
    )

    def trained(folder, patience):
        settings = settings_of(evaluate_every=2, checkpoint_every=3, early_stopping=patience, max_updates=14)
        updates.clear()
        record, weights, _ = run(tiny_data, tmp_path / folder, settings)
        return record, weights, list(updates)

    assert trained("changed", 2)[2] == list(range(1, 9))
    more, more_weights, done = trained("changed", 3)
    assert done == list(range(9, 15))
    whole, whole_weights, _ = trained("whole", 3)
    assert more == whole
    assert (more["stopped"], more["best_update"]) == ("max_updates", 10)
    for ours, theirs in zip(more_weights, whole_weights, strict=True):
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    less, _, done = trained("changed", 1)
    assert (less["stopped"], done) == ("early_stopping", list(range(1, 7)))
    assert "early_stopping ends after update 6" in caplog.text


def other_dev(tiny_data, folder):
    """The same data with another dev set: the first half of it."""
    lines = tiny_data.dev_reference.read_text().splitlines(keepends=True)[:30]
    folder.mkdir()
    for name in ("source", "rows"):
        text = (tiny_data.folder / f"dev.{name}").read_text().splitlines(keepends=True)[:30]
        (folder / f"dev.{name}").write_text("".join(text))
    (folder / "dev.target").write_text("".join(lines))
    paths = {name: folder / f"dev.{name}" for name in ("source", "target", "rows")}
    vocabularies = {f"{side}_vocabulary": getattr(tiny_data, f"{side}_vocabulary") for side in ("source", "target")}
    pack_examples(settings=PackExamples(), cores=1, **paths, **vocabularies, examples=folder / "dev.arrow")
    assert len(Examples.open(folder / "dev.arrow")) == 30

    return SimpleNamespace(
        inputs={**tiny_data.inputs, "dev": folder / "dev.arrow", "dev_reference": folder / "dev.target"}
    )


def test_another_dev_set_evaluates_again_and_trains_only_where_it_decides(tiny_data, tmp_path, updates, caplog):
    caplog.set_level("INFO", "phrasemt")
    other = other_dev(tiny_data, tmp_path / "dev")
    _, weights, _ = run(tiny_data, tmp_path / "changed", settings_of())
    updates.clear()
    record, same_weights, lines = run(other, tmp_path / "changed", settings_of())
    assert updates == []
    for ours, theirs in zip(same_weights, weights, strict=True):
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    whole = run(other, tmp_path / "whole", settings_of())
    assert record["evaluations"] == whole[0]["evaluations"][-1:]
    assert [line for line in lines if line[2] is not None] == [whole[2][-1]]

    run(tiny_data, tmp_path / "best", settings_of(average_best=1))
    updates.clear()
    run(other, tmp_path / "best", settings_of(average_best=1))
    assert len(updates) == 12
    assert "it has no score on this dev set after update 4, which decides" in caplog.text


def test_a_killed_training_that_is_shortened_to_its_update_ends_there(tiny_data, tmp_path, updates):
    """Its state has neither the evaluation nor the checkpoint of this update yet."""
    with pytest.raises(StoppedError):
        run(tiny_data, tmp_path / "killed", settings_of(max_updates=30), minutes=1e-9)
    updates.clear()
    shortened = run(tiny_data, tmp_path / "killed", settings_of(max_updates=1))
    assert updates == []
    assert_equal_runs(shortened, run(tiny_data, tmp_path / "whole", settings_of(max_updates=1)))


# Another value of each setting of a training.
OTHER_VALUES = {
    "tokens_per_update": 150,
    "sentences_per_update": 20,
    "max_updates": 9,
    "max_length": 7,
    "label_smoothing": 0.2,
    "optimizer": Adam(warmup=5, factor=0.1),
    "clip_norm": 0.01,
    "precision": "bfloat16",
    "evaluate_every": 3,
    "checkpoint_every": 2,
    "average_last": 3,
    "average_best": 1,
    "best_by": "perplexity",
    "early_stopping": 50,
}


@pytest.fixture(scope="module")
def state_of_eight_updates(tiny_data, tmp_path_factory):
    """Weights after eight updates under given settings, by name."""

    def weights(**training):
        folder = tmp_path_factory.mktemp("training")
        run(tiny_data, folder, settings_of(**{"max_updates": 8, "evaluate_every": 8, **training}))
        (latest,) = folder.glob("state/*/latest.safetensors")
        tensors, description = load_tensors(latest)
        return description["updates"], tensors

    return weights


def test_the_key_of_updates_holds_the_settings_that_decide_them(state_of_eight_updates):
    """A setting outside of the key changes no weight; a setting in the key is there because it may change them."""
    assert OTHER_VALUES.keys() == Training.model_fields.keys(), "a new setting belongs into this list"
    key, weights = state_of_eight_updates()
    for name in WITHOUT_EFFECT_ON_UPDATES - {"max_updates"}:
        other_key, other = state_of_eight_updates(**{name: OTHER_VALUES[name]})
        assert other_key == key, name
        assert all(torch.equal(other[tensor], weights[tensor]) for tensor in weights), name
    for name in OTHER_VALUES.keys() - WITHOUT_EFFECT_ON_UPDATES:
        changed = settings_of(max_updates=1, **{name: OTHER_VALUES[name]})
        without = {"training": WITHOUT_EFFECT_ON_UPDATES}
        assert changed.canonical_json(without=without) != settings_of().canonical_json(without=without), name
