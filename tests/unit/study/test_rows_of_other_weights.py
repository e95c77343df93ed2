"""Rows of the table that train nothing: other decodings, and ensembles of seeds and of systems."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from phrasemt.stages.decoding import TranslateExamples
from phrasemt.study.schema import Study
from phrasemt.workflow.flow import Flow


def study_of(systems, **changes):
    texts = [{"corpus": "multi30k", "part": "train"}]
    dataset = {"source_language": "en", "target_language": "de"}
    base = {"model": {"family": "transformer", "width": 64}, "decoding": {"beam": 6, "length_penalty": 1.0}}
    phrases = {"model": {"family": "phrase_representation"}}
    return Study.model_validate(
        {
            "study": "rows",
            "seeds": [1, 2, 3],
            "datasets": {"a": {**dataset, "splits": {"train": texts, "dev": texts, "test": {"t": texts}}}},
            "systems": {"base": base, "max": phrases, "lm": {"model": {"family": "language_model"}}, **systems},
            **changes,
        }
    )


def test_a_row_has_the_model_of_its_system_and_its_own_decoding():
    study = study_of({"wide": {"weights_of": ["base"], "decoding": {"beam": 12}}})
    row = study.systems["wide"]
    assert row.model == study.systems["base"].model
    assert (row.decoding.beam, row.decoding.length_penalty) == (12, 1.0)
    assert study.trained == ["base", "max", "lm"]
    assert study.seeds_of("wide") == [1, 2, 3]
    assert study.members_of("wide", 2) == [("base", 2)]


def test_presets_count_as_in_the_system_itself():
    study = study_of({"paper": {"preset": "xu-paper"}, "greedy": {"weights_of": ["paper"], "decoding": {"beam": 1}}})
    assert study.systems["greedy"].model == study.systems["paper"].model
    assert study.systems["greedy"].decoding == study.systems["paper"].decoding.model_copy(update={"beam": 1})


def test_a_row_that_samples_leaves_the_beam_out():
    study = study_of({"drawn": {"weights_of": ["base"], "decoding": {"sampling": {"top_k": 5}}}})
    assert study.systems["drawn"].decoding.sampling.top_k == 5
    assert study.systems["drawn"].decoding.length_penalty == 1.0


def test_a_row_has_the_seeds_that_all_its_systems_are_trained_with():
    twice = {"model": {"family": "transformer"}, "seeds": [1, 2]}
    rows = {"twice": twice, "greedy": {"weights_of": ["twice"], "decoding": {"beam": 1}}}
    study = study_of(rows | {"both": {"weights_of": ["base", "twice"]}})
    assert [study.seeds_of(name) for name in ("base", *rows, "both")] == [[1, 2, 3], [1, 2], [1, 2], [1, 2]]
    assert sorted(Flow(study).every(Flow(study).paths.training_record, systems=["twice"])) == [
        f"results/rows/a.en-de/models/twice/{seed}/training.json" for seed in (1, 2)
    ]


def test_an_ensemble_of_seeds_has_one_translation():
    study = study_of({"all": {"weights_of": ["base"], "decoding": {"ensemble": [3, 1]}}})
    assert study.seeds_of("all") == [3]
    assert study.members_of("all", 3) == [("base", 3), ("base", 1)]
    settings = TranslateExamples.from_study(study, {"system": "all", "seed": "3", "dataset": "a", "split": "t"})
    assert len(settings.members) == 2


def test_rules_ask_for_what_a_row_needs():
    study = study_of(
        {"all": {"weights_of": ["base"], "decoding": {"ensemble": [1, 2, 3]}}, "both": {"weights_of": ["max", "base"]}}
    )
    flow = Flow(study)
    folder = "results/rows/a.en-de"
    assert flow.every(flow.paths.system_scores, systems=["all", "both"]) == [
        f"{folder}/scores/{row}.json" for row in ("all/1", "both/1", "both/2", "both/3")
    ]
    names = {"dataset": "a", "source": "en", "target": "de", "system": "both", "seed": "2"}
    wildcards = SimpleNamespace(**names, items=names.items)
    assert flow.weights(wildcards) == [f"{folder}/models/{name}/2/averaged.safetensors" for name in ("max", "base")]
    assert flow.of_seeds(flow.paths.system_scores, "all")(wildcards) == [f"{folder}/scores/all/1.json"]
    settings = TranslateExamples.from_study(study, names)
    assert settings.code_modules()[1:] == ("phrasemt.models.phrase_representation", "phrasemt.models.transformer")


def test_code_of_all_members_belongs_to_the_stage_and_nothing_of_a_row_is_trained():
    flow = Flow(study_of({"wide": {"weights_of": ["base"], "decoding": {"beam": 12}}}))
    assert flow.every(flow.paths.training_record, systems=flow.trained) == [
        f"results/rows/a.en-de/models/{name}/{seed}/training.json"
        for name in ("base", "max", "lm")
        for seed in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"weights_of": ["bsae"]}, "systems.row.weights_of names 'bsae', allowed: systems that are trained"),
        ({"weights_of": ["row"]}, "systems.row.weights_of names 'row', allowed"),
        ({"weights_of": ["base", "base"]}, "weights_of names a system twice"),
        ({"weights_of": ["base"]}, "the row would repeat base; change a key of decoding"),
        ({"weights_of": ["lm"], "decoding": {"beam": 2}}, "because a language model does not translate"),
        ({"weights_of": ["base"], "training": {"max_updates": 3}}, "systems.row.training has no effect"),
        ({"weights_of": ["base"], "model": {"family": "transformer"}}, "systems.row.model has no effect"),
        ({"weights_of": ["base"], "decoding": {"ensemble": [1, 4]}}, "names seed 4, allowed: the seeds of base"),
        ({"weights_of": ["base"], "decoding": {"ensemble": [1, 1]}}, "contains a seed twice"),
        ({"weights_of": ["base"], "decoding": {"ensemble": [1]}}, "at least 2 items"),
        ({"model": {"family": "transformer"}, "decoding": {"ensemble": [1, 2]}}, "ensemble needs weights_of"),
        ({"weights_of": ["base", "max"]}, "name the system with phrases first"),
        ({"weights_of": ["base"], "seeds": [1], "decoding": {"beam": 2}}, "seeds has no effect with weights_of"),
        (
            {"model": {"family": "transformer"}, "seeds": [2]},
            "systems.row.seeds is [2], expected the first seed or seeds",
        ),
        ({"model": {"family": "transformer"}, "seeds": []}, "at least 1 item"),
    ],
)
def test_rows_that_mean_nothing_are_refused(row, message):
    with pytest.raises(ValidationError) as error:
        study_of({"row": row})
    assert message in str(error.value)
