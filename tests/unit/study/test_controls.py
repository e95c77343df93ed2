"""Controls of systems. Witness of their sizes: the parameters of the models that torch makes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from phrasemt.models.interface import build_model
from phrasemt.study.architectures import Architecture
from phrasemt.study.presets import PRESETS
from phrasemt.study.reading import load_study, study_of
from phrasemt.study.schema import System

SIZES = {"width": 64, "heads": 4, "ffn_width": 128, "encoder_layers": 2, "decoder_layers": 3, "layers": 2}
RECURRENT = {"embedding": 24, "hidden": 40, "chunk_hidden": 32, "chunk_embedding": 28}


def used(model: Architecture) -> int:
    with torch.device("meta"):
        built = build_model(model, source_vocabulary=50, target_vocabulary=60 if not model.one_vocabulary else 50)
    return sum(parameter.numel() for parameter in built.parameters()) - built.unused_parameters()


def system(preset: str, **model: object) -> Architecture:
    fields = type(System.model_validate({"preset": preset}).model).model_fields
    sizes = {key: value for key, value in (SIZES if "width" in fields else RECURRENT).items() if key in fields}
    return System.model_validate({"preset": preset, "model": {**sizes, **model}}).model


MODELS = [
    *((preset, {}) for preset in PRESETS),
    ("xu-paper", {"phrase": {"mode": "none"}}),
    ("xu-paper", {"attention": "ngrams", "ngrams": 3, "score": "dot_product"}),
    ("xu-base", {"family": "phrase_representation", "attention": "relative", "rel_k": 40, "ta_tokens": True}),
    ("nguyen2020-paper", {"ngrams": 4}),
    ("zh-dl4mt-2", {"readout": "maxout", "readout_width": 10, "attention_width": 30}),
    ("zh-word", {"readout": "maxout"}),
]


@pytest.mark.parametrize(("preset", "changes"), MODELS)
def test_a_model_of_the_same_size_is_the_nearest_one(preset: str, changes: dict[str, object]) -> None:
    model = system(preset, **changes)
    wanted, plain = used(model), model.plain_counterpart
    control = model.own_controls.get("same-size")
    if control is None:
        assert wanted - used(plain) < 3 * (2 * 64 + 1), "half a unit of the feed-forward networks, or no addition"
        return
    key = "ffn_width" if "ffn_width" in type(plain).model_fields else "hidden"
    chosen = getattr(control.model, key)
    assert f"{chosen:,}" in control.title
    found = {
        number: abs(used(control.model.model_copy(update={key: number})) - wanted)
        for number in (chosen - 1, chosen, chosen + 1)
    }
    assert min(found, key=found.__getitem__) == chosen
    assert control.model.model_copy(update={key: getattr(plain, key)}) == plain


@pytest.mark.parametrize(("mode", "shuffled"), [("ngram", False), ("parse", True)])
def test_phrases_have_controls_that_differ_in_nothing_else(mode: str, shuffled: bool) -> None:
    model = system("xu-paper", phrase={"mode": mode, "ntok_max": 5})
    modes = {"no-phrases": "none", "random-trees": "random", "right-branching": "right"}
    modes |= {"shuffled": "shuffled"} if shuffled else {}
    assert list(model.own_controls) == ["same-size", *modes]
    for name, other in modes.items():
        control = model.own_controls[name].model
        assert control.phrase.mode == other
        assert (control.phrase.ntok_max == 5) == (other != "none")
        assert control.model_copy(update={"phrase": model.phrase}) == model


STUDY = """\
study: small
seeds: [1, 2]
datasets:
  demo: {source_language: en, target_language: de, generator: {train: 99, dev: 9, test: 9}}
systems:
  base: {model: &model {family: transformer, width: 16, heads: 2}}
  max:
    title: + Max
    stands_for: [xu2020/table-2/max]
    model: {<<: *model, family: phrase_representation}
    seeds: [1]
    controls: [same-size, random-trees]
  ng: {model: {<<: *model, attention: ngrams}, controls: {same-size: wide}}
  wide: {model: *model, seeds: [1]}
"""


def test_a_study_has_the_controls_that_its_systems_name(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    study = load_study(path)
    assert list(study.systems) == ["base", "max", "max-same-size", "max-random-trees", "ng", "wide"]
    assert study.controls == {"max": ["max-same-size", "max-random-trees"], "ng": ["wide"]}
    made, own = study.models["max-random-trees"], study.models["max"]
    assert made.title == "+ Max, but random trees"
    assert made.model_copy(update={"model": own.model}) == own.model_copy(
        update={"title": made.title, "stands_for": [], "controls": []}
    )
    assert study.models["wide"].model == study.models["base"].model
    again = study_of(study.model_dump(mode="json", exclude_unset=True), "study.json")  # as in a capsule
    assert again == study


@pytest.mark.parametrize(
    ("controls", "problem"),
    [
        (
            "[same-size, shufled]",
            "systems.max: controls: found 'shufled', allowed for this model: same-size, no-phrases",
        ),
        ("{same-size: max}", "systems.max.controls names 'max', expected another system that is trained"),
        ("3", "systems.max.controls: found 3, expected a list"),
    ],
)
def test_controls_that_a_system_cannot_have(problems_of: Callable[..., list[str]], controls: str, problem: str) -> None:
    assert problems_of(STUDY.replace("[same-size, random-trees]", controls))[0].startswith(problem)


def test_models_that_count_bos_have_no_trees() -> None:
    assert list(system("xu-code").own_controls) == ["same-size", "no-phrases"]
    assert not list(itertools.chain(system("xu-base").own_controls, system("zh-dl4mt").own_controls))
