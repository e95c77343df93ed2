"""An exported model: what is refused, the study that starts from it, and its folder for CTranslate2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from phrasemt.artefacts.columns import Vocabularies, Vocabulary
from phrasemt.cli import main
from phrasemt.commands._arguments import ChosenTraining
from phrasemt.commands.export import readme
from phrasemt.decoding.translator import Translator
from phrasemt.errors import PhrasemtError, StudyError
from phrasemt.files.lines import write_lines
from phrasemt.files.system import digest_file
from phrasemt.models.ctranslate2_export import write_ctranslate2_folder
from phrasemt.models.interface import build_model
from phrasemt.models.weights import describe_weights, load_tensors, save_tensors, start_from, weights_of
from phrasemt.stages.subwords import BuildVocabulary, LearnSubwords
from phrasemt.study.architectures import Architecture, TransformerModel
from phrasemt.study.schema import Study
from phrasemt.symbols import SPECIAL_TOKENS
from phrasemt.text.subwords import build_vocabulary, learn_subwords
from phrasemt.workflow.check import read_study
from phrasemt.workflow.trained_system import SystemSettings, TrainedSystem, initial_weights, write_model_folder

SIZE = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "ffn_width": 24}


def _study(folder: Path, **changes: object) -> dict:
    text = [{"source": str(folder / "train.source"), "target": str(folder / "train.target")}]
    data = {
        "source_language": "en",
        "target_language": "de",
        "splits": {"train": text, "dev": text, "test": {"test": text}},
        "overlap": "allowed",
        "tokenization": {"source": "character"},
        "subwords": {"merges": 12, "vocabulary_threshold": 0},
    }
    systems = {"base": {"model": {"family": "transformer", **SIZE}}}
    return {"study": "first", "datasets": {"toy": data}, "systems": systems, **changes}


def _system(folder: Path, model: Architecture) -> tuple[Study, TrainedSystem]:
    """A system with random weights, whose subwords are learned on two lines."""
    sides = {side: folder / f"train.{side}" for side in ("source", "target")}
    write_lines(sides["source"], ["the old dog and the old cat", "an older dog"])
    write_lines(sides["target"], ["der alte Hund und die alte Katze", "ein älterer Hund"])
    counts = {f"{side}_counts": folder / f"{side}.counts" for side in sides}
    vocabularies = {f"{side}_vocabulary": folder / f"{side}.vocabulary" for side in sides}
    learn_subwords(settings=LearnSubwords(merges=12), cores=1, **sides, codes=folder / "codes", **counts)
    build_vocabulary(settings=BuildVocabulary(shared=True), cores=1, **sides, **vocabularies)
    words = Vocabulary.read(vocabularies["source_vocabulary"])
    torch.manual_seed(3)
    built = build_model(model, source_vocabulary=len(words), target_vocabulary=len(words))
    with torch.no_grad():  # translations are words, and never end
        built.embeddings.output.bias_V[: len(SPECIAL_TOKENS)] = -100
    save_tensors(folder / "weights", weights_of(built), describe_weights(model, Vocabularies(words, words)))
    study = Study.model_validate(_study(folder))
    settings = SystemSettings.of_study(study, "toy", "base").model_copy(update={"model": model})
    files = {"weights": folder / "weights", "codes": folder / "codes", **vocabularies, **counts}
    return study, TrainedSystem("toy", settings, files)


@pytest.fixture
def exported(tmp_path):
    study, system = _system(tmp_path, TransformerModel(**SIZE))
    about = {"phrasemt": "0", "study": "first", "dataset": "toy", "system": "base", "seed": 1}
    write_model_folder(tmp_path / "exported", system, about, {"study.json": study.model_dump_json()})
    return tmp_path / "exported"


@pytest.fixture
def started(exported, tmp_path, monkeypatch):
    """A study whose training starts from the exported model, with its subwords."""
    monkeypatch.chdir(tmp_path)
    raw = _study(tmp_path, study="second")
    raw["datasets"] = {"NAME": raw["datasets"]["toy"]}
    raw["datasets"]["NAME"]["subwords"] = {"reuse": str(exported), "vocabulary_threshold": 0}
    raw["systems"] = {"NAME": {**raw["systems"]["base"], "init_from": str(exported)}}
    return raw


def _write(raw: dict) -> Path:
    path = Path("study.yaml")
    path.write_text(yaml.safe_dump(raw))
    return path


def test_a_training_starts_from_an_exported_model_with_its_subwords(started, exported, tmp_path):
    study = read_study(_write(started))
    data = study.datasets["NAME"]
    assert SystemSettings.of_study(study, "NAME", "NAME").source_tokenizer.unit == "character"
    (weights,) = initial_weights(study.systems["NAME"], seed=7)
    made = {name: tmp_path / f"made.{name}" for name in ("codes", "source_counts", "target_counts")}
    other = dict.fromkeys(("source", "target"), exported / "study.json")  # any other text
    given = [exported / name for name in ("codes.bpe", "source_counts.txt", "target_counts.txt")]
    learn_subwords(settings=LearnSubwords(merges=data.subwords.merges), cores=1, **other, given=given, **made)
    assert [path.read_bytes() for path in made.values()] == [path.read_bytes() for path in given]
    vocabularies = {f"{side}_vocabulary": tmp_path / f"made.{side}" for side in other}
    given = [exported / f"{side}_vocabulary.tsv" for side in other]
    build_vocabulary(settings=BuildVocabulary(shared=True), cores=1, **other, given=given, **vocabularies)
    words = Vocabulary.read(vocabularies["source_vocabulary"])
    model = study.systems["NAME"].model
    fresh = build_model(model, source_vocabulary=len(words), target_vocabulary=len(words))
    start_from(fresh, weights, describe_weights(model, Vocabularies(words, words)))
    expected, _ = load_tensors(exported / "weights.safetensors")
    assert all(torch.equal(tensor, expected[name]) for name, tensor in weights_of(fresh).items())


@pytest.mark.parametrize(
    ("section", "value", "message"),
    [
        ("subwords", {"vocabulary_threshold": 8}, "subwords.vocabulary_threshold is 8, but the model in .* reads 0"),
        ("tokenization", {"source": "moses"}, "tokenization, source is .*unit='moses'"),
        ("subwords", {"reuse": "nowhere"}, "subwords.reuse: nowhere: not a model folder"),
    ],
)
def test_a_study_that_reads_other_text_is_refused(started, section, value, message):
    started["datasets"]["NAME"][section] |= value
    with pytest.raises(StudyError, match=rf"datasets\.NAME\.{message}"):
        read_study(_write(started))


def _change(folder, change):
    """Change the manifest by a function of its values."""
    values = json.loads((folder / "model.json").read_text())
    change(values)
    (folder / "model.json").write_text(json.dumps(values))


def _write_into(name, content):
    """A file with other content, whose checksum the manifest gives."""

    def damage(folder):
        (folder / name).write_bytes(content)
        _change(folder, lambda values: values["files"].update({name: digest_file(folder / name)}))

    return damage


def _tensors(change, **described):
    """Weights with other tensors, or another description, by a function of them."""

    def damage(folder):
        path = folder / "weights.safetensors"
        tensors, description = load_tensors(path)
        change(tensors, description)
        save_tensors(path, tensors, description)
        _write_into(path.name, path.read_bytes())(folder)

    return damage


def _retyped(folder):
    """The bytes of a tensor as another type of the same size, with a checksum of the file that fits."""
    path = folder / "weights.safetensors"
    _write_into(path.name, path.read_bytes().replace(b'"F32"', b'"I32"', 1))(folder)


def _one_gone(name):
    return lambda folder: _change(folder, lambda values: values["files"].pop(name))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "codes.bpe").write_text("#version: 0.2\n"),
            "codes.bpe: not the file that was exported",
        ),
        (lambda folder: _change(folder, lambda values: values.update(files={})), "the model needs is not listed"),
        (
            lambda folder: _change(folder, lambda values: values.update(format=1)),  # of version 0.1.0
            "a file of another format (expected format 3, found 1). Next: copy the folder again from where it was "
            "exported, or export it again with this version of phrasemt",
        ),
        (_one_gone("weights.safetensors"), "not listed (expected weights.safetensors)"),
        (_write_into("weights.safetensors", b"\x10\0\0\0\0\0\0\0garbage"), "not a readable weights file"),
        (_tensors(lambda tensors, _: tensors.pop(max(tensors))), "not the weights of this model"),
        (
            _tensors(lambda _, description: description.update(model={"family": "unheard"})),
            "of a model that is not known here",
        ),
        (_retyped, "its checksum is wrong"),
        (
            lambda folder: _change(folder, lambda values: values["files"].update({"../../etc/passwd": "0" * 64})),
            "a file of the model is outside of its folder",
        ),
        (
            lambda folder: _change(folder, lambda values: values["files"].update({"/etc/passwd": "0" * 64})),
            "a file of the model is outside of its folder",
        ),
        (
            lambda folder: _change(folder, lambda values: values["files"].update({"parser/../../x": "0" * 64})),
            "a file of the model is outside of its folder",
        ),
        (_write_into("source_vocabulary.tsv", b"garbage\n"), "not a vocabulary"),
        (_write_into("codes.bpe", b"garbage\n"), "codes.bpe"),
        (_write_into("source_counts.txt", b"a b c\nd\n"), "source_counts.txt"),
    ],
)
def test_a_damaged_model_is_refused(damage, message, exported, tmp_path, capsys):
    damage(exported)
    assert main(["translate", str(tmp_path / "train.source"), "--model", str(exported)]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert "Next: " in said.err
    assert said.out == ""


def test_the_lines_in_the_readme_of_a_folder_for_ctranslate2_translate_as_ours(tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2")
    monkeypatch.chdir(tmp_path)
    decoding = {"beam": 1, "length_penalty": 1.0, "length_penalty_form": "length", "max_length_extra": 60}
    systems = {"base": {"model": {"family": "transformer", **SIZE}, "decoding": decoding}}
    _, system = _system(tmp_path, TransformerModel(**SIZE))
    study = Study.model_validate(_study(tmp_path, systems=systems))
    text = readme(ChosenTraining(study, "toy", "base", 1), "ctranslate2")
    write_ctranslate2_folder(tmp_path / "fast", system, {"README.md": text})
    lines = ["the old dog", "an  older cat & dog"]
    ours = Translator(system, decoding=study.models["base"].decoding, cores=1).translate(lines)
    code = text.split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "fast", input="\n".join(lines), capture_output=True, text=True
    )
    words = [line.split()[:20] for line in done.stdout.splitlines()]
    assert words == [line.candidates[0].text.split()[:20] for line in ours], done.stderr
    assert [len(line) for line in words] == [20, 20]


def test_a_folder_for_ctranslate2_can_be_loaded_and_has_the_subwords(tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    _, system = _system(tmp_path, TransformerModel(**SIZE))
    write_ctranslate2_folder(tmp_path / "fast", system, {"README.md": "# A model\n"})
    translator = ctranslate2.Translator(str(tmp_path / "fast"))
    (result,) = translator.translate_batch([["the", "old"]], max_decoding_length=3)
    assert len(result.hypotheses[0]) <= 3
    assert (tmp_path / "fast" / "codes.bpe").read_bytes() == (tmp_path / "codes").read_bytes()
    with pytest.raises(PhrasemtError, match="the folder is there already"):
        write_ctranslate2_folder(tmp_path / "fast", system, {})


def test_an_interrupted_translation_leaves_no_file(exported, tmp_path, monkeypatch, capfd):
    """The interruption is a line that is not UTF-8, which is corrected then. Blocks of two lines, so some are done."""
    monkeypatch.setattr("phrasemt.commands.translate._LINES", 2)
    lines = [b"the old dog", b"", b"an older cat", b"a\x00b", b"dog", b"the cat", b"old"]
    (tmp_path / "texts").mkdir()
    text, output = tmp_path / "text", tmp_path / "texts" / "out"
    command = ["translate", str(text), "--model", str(exported), "--decoding", "max_length_extra=3"]
    text.write_bytes(b"\n".join([*lines[:4], b"\xff", *lines[5:]]))
    assert main([*command, "--output", str(output)]) == 2
    assert "text, line 5, byte 1: not UTF-8" in capfd.readouterr().err
    assert not [*output.parent.iterdir()]
    text.write_bytes(b"\n".join(lines))
    assert main([*command, "--output", str(output)]) == 0
    assert main([*command, "--model", str(exported), "--output", str(tmp_path / "together")]) == 0
    assert output.read_bytes() == (tmp_path / "together").read_bytes()
    assert output.read_bytes().count(b"\n") == len(lines)
    assert capfd.readouterr().err == ""
