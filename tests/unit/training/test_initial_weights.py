"""Trainings that start from given weights (`init_from`)."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import pytest
import safetensors
import safetensors.torch
import torch
from trainings import SMALL, run, settings_of

from phrasemt.batching.pack import pack_examples
from phrasemt.errors import DamagedFileError, MismatchError, PhrasemtError
from phrasemt.models.weights import load_tensors
from phrasemt.stages.subwords import PackExamples
from phrasemt.study.architectures import TransformerModel
from phrasemt.study.schema import Adam

# One update of this training changes no weight by more than 1e-12.
STANDSTILL = {"max_updates": 1, "optimizer": Adam(warmup=1, factor=1e-13)}


@pytest.fixture(scope="module")
def trained(tiny_data, tmp_path_factory):
    """The file of weights after a short training."""
    folder = tmp_path_factory.mktemp("trained")
    record, _, _ = run(tiny_data, folder, settings_of())
    return folder / record["checkpoints"][-1]


def started(tiny_data, folder, weights, settings):
    """Record and weights of a training that starts from the weights of a file."""
    data = SimpleNamespace(inputs={**tiny_data.inputs, "initial_weights": [weights]})
    record, (after,), _ = run(data, folder, settings)
    return record, after


def test_a_training_starts_from_given_weights(tiny_data, tmp_path, trained, caplog):
    caplog.set_level("INFO", "phrasemt")
    settings = settings_of(dropout=0.3, seed=5, **STANDSTILL)
    record, after = started(tiny_data, tmp_path / "a", trained, settings)
    before = load_tensors(trained)[0]
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=1e-6)
    assert "dropout 0.1 -> 0.3" in caplog.text
    alone, _, _ = run(tiny_data, tmp_path / "a", settings)
    assert alone["metrics"] != record["metrics"], "without these weights it is another training"


def test_weights_of_another_program_are_known_by_names_and_shapes(tiny_data, tmp_path, trained):
    tensors = {name: tensor + 1 for name, tensor in load_tensors(trained)[0].items()}
    foreign = tmp_path / "foreign.safetensors"
    safetensors.torch.save_file(tensors, foreign)
    _, after = started(tiny_data, tmp_path / "a", foreign, settings_of(**STANDSTILL))
    for name, tensor in tensors.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=1e-6)


def test_a_changed_file_is_another_training(tiny_data, tmp_path, trained):
    folder = tmp_path / "a"
    weights = tmp_path / "initial.safetensors"
    weights.write_bytes(trained.read_bytes())
    first, _ = started(tiny_data, folder, weights, settings_of(**STANDSTILL))
    safetensors.torch.save_file({name: 2 * tensor for name, tensor in load_tensors(trained)[0].items()}, weights)
    second, after = started(tiny_data, folder, weights, settings_of(**STANDSTILL))
    assert first["metrics"] != second["metrics"]
    assert any(not torch.allclose(after[name], tensor) for name, tensor in load_tensors(trained)[0].items())


def test_the_error_names_parameters_that_differ(tiny_data, tmp_path, trained):
    wider = settings_of(model=TransformerModel(**{**SMALL, "ffn_width": 48}), **STANDSTILL)
    with pytest.raises(MismatchError) as error:
        started(tiny_data, tmp_path / "a", trained, wider)
    message = str(error.value)
    assert message.startswith(f"{trained}: not the weights of this model: ")
    assert "[48" in message
    assert "[32" in message
    assert message.endswith("Next: give the weights of such a model in init_from, or leave init_from out")
    deeper = settings_of(model=TransformerModel(**{**SMALL, "encoder_layers": 2}), **STANDSTILL)
    with pytest.raises(MismatchError, match="absent"):
        started(tiny_data, tmp_path / "b", trained, deeper)


def test_weights_of_another_vocabulary_are_refused(tiny_data, tmp_path, trained):
    """They would fit by their shapes, with other words in the rows of the tables."""
    swapped = tmp_path / "vocabulary"
    lines = tiny_data.source_vocabulary.read_text().splitlines(keepends=True)
    swapped.write_text("".join([*lines[:-2], lines[-1], lines[-2]]))
    vocabularies = {"source_vocabulary": swapped, "target_vocabulary": swapped}
    inputs = {**tiny_data.inputs, **vocabularies, "initial_weights": [trained]}
    for split in ("train", "dev"):
        files = {name: tiny_data.folder / f"{split}.{name}" for name in ("source", "target", "rows")}
        inputs[split] = tmp_path / f"{split}.arrow"
        pack_examples(settings=PackExamples(), cores=1, **files, **vocabularies, examples=inputs[split])
    with pytest.raises(MismatchError, match="the initial weights were trained with another source vocabulary"):
        run(SimpleNamespace(inputs=inputs), tmp_path / "a", settings_of(**STANDSTILL))


def test_other_files_are_refused_and_stay(tiny_data, tmp_path, trained):
    pickle, damaged = tmp_path / "weights.pt", tmp_path / "damaged.safetensors"
    torch.save(load_tensors(trained)[0], pickle)
    damaged.write_bytes(trained.read_bytes()[:-4] + b"\0\1\2\3")
    for path in (pickle, damaged):
        with pytest.raises(DamagedFileError) as error:
            started(tiny_data, tmp_path / "a", path, settings_of(**STANDSTILL))
        assert str(error.value).startswith(
            f"{path}: not usable as initial weights (expected a safetensors file, found "
        )
        assert "delete" not in str(error.value)
        assert path.exists()
    assert not (tmp_path / "a" / "training.json").exists()


def test_weights_that_cannot_be_mapped_are_not_called_damaged(tmp_path, monkeypatch):
    """As on a file system without memory maps: nobody is told to delete them."""

    def refused(path, framework):
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    monkeypatch.setattr(safetensors, "safe_open", refused)
    with pytest.raises(
        PhrasemtError, match=r"w\.safetensors: cannot be read .*No such device.*copy the folder"
    ) as error:
        load_tensors(tmp_path / "w.safetensors")
    assert not isinstance(error.value, DamagedFileError)
