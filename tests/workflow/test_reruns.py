"""What a change runs again: the rows of the table in docs/reruns.md.

One dry run of the finished study gives its jobs. Most changes are then judged in this process: a job runs again when
one of its parameters, which are its settings and the digest of its code, comes out different, or when a job runs again
whose output it reads. Snakemake itself is asked for changes that bring other jobs or files, and for one of each other
kind; a dry run takes seconds, so several changes share one.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from warm_python import WarmPython
from workplace import STUDY, Workplace, stage_command

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.sidecar import Sidecar, sidecar_path
from phrasemt.cli import main
from phrasemt.commands.capsule import write_capsule
from phrasemt.runs.plan import plan_of
from phrasemt.runs.start import Journal
from phrasemt.study.architectures import Layers, PhraseRepresentationModel
from phrasemt.study.reading import load_study
from phrasemt.workflow import code
from phrasemt.workflow.flow import Flow

NAMES = ("base", "max", "mean", "bi", "lm")
TRANSLATING = ("base", "max", "bi")


def _paper(*systems: str) -> set[str]:
    """What follows from new scores of these systems. The baseline is in every comparison."""
    compared = {"max", "bi"} if "base" in systems else set(systems)
    return {f"compare_systems {system}" for system in compared} | {"make_table", "write_report"}


def _translations(*systems: str) -> set[str]:
    return {f"{rule} {system}" for rule in ("translate_examples", "score_system") for system in systems} | _paper(
        *systems
    )


def _training(*systems: str) -> set[str]:
    rules = ("train_model", "average_checkpoints", "score_contrasts", "analyse_attention")
    return {f"{rule} {system}" for rule in rules for system in systems} | _translations(*systems)


TRAINING_OF_CHUNKS = {"score_chunks bi"} | _training("bi")
TRAINING_OF_THE_LANGUAGE_MODEL = {"make_table", "write_report"} | {
    f"{rule} lm" for rule in ("train_model", "average_checkpoints", "score_perplexity", "analyse_attention")
}
EXAMPLES = {"pack_examples"} | _training("base", "max") | TRAINING_OF_CHUNKS | TRAINING_OF_THE_LANGUAGE_MODEL
PHRASES = {"extract_phrases", "measure_phrases"} | _training("max")
CHUNKS = {"extract_chunks"} | TRAINING_OF_CHUNKS
ANNOTATIONS = {"parse_sentences", "tag_sentences"} | CHUNKS | PHRASES
VOCABULARY = {"compare_splits", "build_vocabulary"} | EXAMPLES | CHUNKS | PHRASES
SUBWORDS = {"learn_subwords", "apply_subwords"} | VOCABULARY
TOKENS = {"tokenize_text"} | ANNOTATIONS | SUBWORDS


def _name(rule: str, output: str) -> str:
    """A rule, with the system where there is one."""
    return " ".join([rule, *(part for part in Path(output).with_suffix("").parts if part in NAMES)])


def _planned(workplace: Workplace, *arguments: str) -> set[str]:
    """What Snakemake would run."""
    done = workplace.snakemake("--summary", *arguments)
    assert done.returncode == 0, done.stderr
    header, *rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    assert len(rows) > 30, done.stdout
    files = [dict(zip(header, row, strict=True)) for row in rows]
    return {_name(file["rule"], file["output_file"]) for file in files if file["plan"] != "no update"}


class Job(NamedTuple):
    """A job of the finished study, named by its first output.

    params: its settings and the digest of its code; after: the jobs whose outputs it reads.
    """

    rule: str
    wildcards: dict[str, str]
    output: str
    params: tuple[str, str]
    after: list[str]


@pytest.fixture(scope="module")
def jobs(undisturbed: Workplace, tmp_path_factory: pytest.TempPathFactory) -> list[Job]:
    """All jobs, each after those it waits for, as Snakemake plans them. None of them has to run."""
    folder = tmp_path_factory.mktemp("planned") / "copy"
    shutil.copytree(undisturbed.folder, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        plan = plan_of(Path("study.yaml"))
    assert plan.jobs == []
    ordered = [job for job in Journal.opened.workflow.dag.toposorted() for job in job if job.rule.name != "all"]
    made_by = {str(path): str(job.output[0]) for job in ordered for path in job.output}
    return [
        Job(
            job.rule.name,
            dict(job.wildcards.items()),
            str(job.output[0]),
            (job.params.settings, job.params.code),
            [made_by[str(path)] for path in job.input if str(path) in made_by and not path.is_ancient],
        )
        for job in ordered
    ]


def _reruns(jobs: list[Job], study: str, folder: Path) -> set[str]:
    """The jobs whose parameters are others in a study, and all that follows."""
    (folder / "study.yaml").write_text(study)
    flow = Flow(load_study(folder / "study.yaml"))
    rerun: dict[str, str] = {}
    for job in jobs:
        params = flow.params(job.rule)
        now = (params["settings"](job.wildcards), params["code"](job.wildcards))
        if now != job.params or rerun.keys() & job.after:
            rerun[job.output] = _name(job.rule, job.output)
    return set(rerun.values())


def _changed(change: Callable[[dict[str, Any]], None]) -> str:
    """The study after a change, written in another layout."""
    study = json.loads(json.dumps(yaml.safe_load(STUDY)))  # blocks that anchors share become apart
    change(study)
    return yaml.safe_dump(study, indent=4, width=300, sort_keys=False)


def _at(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(study: dict[str, Any]) -> None:
        *sections, key = path.split(".")
        for name in sections:
            study = study[name]
        study[key] = value

    return change


STUDY_CHANGES: dict[str, tuple[str, set[str]]] = {
    "comments": (f"# A comment.\n{STUDY}# Another.\n", set()),
    "layout": (_changed(lambda study: None), set()),
    "a default written out": (_changed(_at("datasets.demo.cleaning", {"max_words": 100})), set()),
    "title": (_changed(_at("title", "Another")), {"make_table", "write_report"}),
    "comparison.samples": (_changed(_at("comparison.samples", 11)), _paper(*TRANSLATING)),
    "decoding of one system": (_changed(_at("systems.max.decoding", {"beam": 3})), _translations("max")),
    "dropout of one system": (_changed(_at("systems.max.model.dropout", 0.2)), _training("max")),
    "training of the baseline": (_changed(_at("systems.base.training.max_updates", 3)), _training("base")),
    "how the baseline averages": (_changed(_at("systems.base.training.average_last", 1)), _training("base")),
    "weights that the baseline starts from": (
        _changed(_at("systems.base.init_from", "results/tiny/demo.en-de/models/max")),
        _training("base"),
    ),
    "training of a parser": (
        _changed(_at("parsers.english.train.epochs", 2)),
        {"train_parser", "parse_sentences"} | PHRASES,
    ),
    "training of a chunker": (
        _changed(_at("chunkers.german.train.updates", 16)),
        {"train_chunker", "tag_sentences"} | CHUNKS,
    ),
    "other phrases": (_changed(_at("systems.max.model.phrase.ntok_max", 4)), PHRASES),
    "parse_jobs": (_changed(_at("datasets.demo.parse_jobs", 2)), ANNOTATIONS),
    "overlap": (_changed(_at("datasets.demo.overlap", "allowed")), {"compare_splits", "make_table", "write_report"}),
    "subwords.merges": (_changed(_at("datasets.demo.subwords.merges", 90)), SUBWORDS),
    "whole words": (_changed(_at("datasets.demo.subwords", {"unit": "word", "words": 90})), VOCABULARY),
    "cleaning of the training pairs": (
        _changed(_at("datasets.demo.cleaning", {"max_words": 12})),
        {"clean_pairs"} | TOKENS,
    ),
}


# With other jobs or files than the finished study, so that Snakemake has to say what they rerun.
OTHER_JOBS = ("weights that the baseline starts from", "other phrases", "parse_jobs", "whole words")


@pytest.mark.parametrize("change", sorted(STUDY_CHANGES.keys() - OTHER_JOBS))
def test_a_changed_study_changes_parameters(jobs: list[Job], change: str, tmp_path: Path) -> None:
    study, expected = STUDY_CHANGES[change]
    assert _reruns(jobs, study, tmp_path) == expected


def test_five_changes_rerun_what_uses_them(finished: Workplace) -> None:
    """Other phrases, other weights to start from, a new system, edited code, an edited file."""
    study = yaml.safe_load(_changed(_at("systems.base.init_from", "results/tiny/demo.en-de/models/max")))
    study["systems"]["max"]["model"]["phrase"]["ntok_max"] = 4
    study["systems"]["mean"] = {
        **study["systems"]["max"],
        "model": {**study["systems"]["max"]["model"], "glance": "mean"},
    }
    finished.write_study(yaml.safe_dump(study, sort_keys=False))
    module = finished.folder / "phrasemt" / "decoding" / "contrasts.py"
    module.write_text(module.read_text() + "\nCHANGED = 1\n")
    text = finished.results / "demo.en-de" / "translations" / "bi" / "1" / "test.txt"
    text.write_text(text.read_text() + "x\n")
    assert _planned(finished) == (
        STUDY_CHANGES["other phrases"][1]
        | STUDY_CHANGES["weights that the baseline starts from"][1]
        | _training("mean")
        | CODE_CHANGES["decoding/contrasts.py"]
        | {"score_system bi", *_paper("bi")}
    )


def test_other_numbers_of_jobs_and_other_subwords_rerun_what_reads_them(finished: Workplace) -> None:
    study = yaml.safe_load(STUDY_CHANGES["whole words"][0])
    study["datasets"]["demo"]["parse_jobs"] = 2
    finished.write_study(yaml.safe_dump(study, sort_keys=False))
    assert _planned(finished) == STUDY_CHANGES["parse_jobs"][1] | STUDY_CHANGES["whole words"][1]


def test_results_of_other_settings_do_not_leave_the_folder(
    finished: Workplace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What only shows them says so first; a capsule whose study was edited is found by its check."""
    monkeypatch.chdir(finished.folder)
    finished.write_study(_changed(_at("systems.max.model.pool", "attn")))
    said = "1 setting has changed since"
    system = ["--system", "max"]
    for command in (
        ["show", "study.yaml"],
        ["compare", "base", "max", "--study", "study.yaml"],
        ["trace", "test:3", "--study", "study.yaml"],
        ["describe", "study.yaml", *system],
        ["status", "study.yaml"],
    ):
        assert main(command) == 0, command
        assert capsys.readouterr().out.startswith(said), command
    for command in (
        ["show", "study.yaml", "--figures", "figures"],
        ["papers", "--study", "study.yaml"],
        ["export", "exported", "--study", "study.yaml", *system],
        ["capsule", "study.yaml"],
        ["translate", "study.yaml", "--study", "study.yaml", *system],
        ["force", "study.yaml", "study.yaml", "--study", "study.yaml", *system],
        ["ratings", "make", "sheets", "--study", "study.yaml"],
    ):
        assert main(command) == 2, command
        error = capsys.readouterr().err
        assert said in error, command
        assert re.search(r"and \d+ jobs would run again \(found model\.pool: glance -> attn", error), command
    write_capsule(load_study(Path("study.yaml")), Path("tiny.zip"), all_references=True)
    assert main(["capsule", "--check", "tiny.zip"]) == 2
    assert re.search(r"^study\.yaml: .*found model\.pool: glance -> attn", capsys.readouterr().out, re.MULTILINE)


# One key of each kind of stage.
_KEYS = {
    "datasets.demo.generator.test": 21,
    "datasets.demo.subwords.merges": 90,
    "parsers.english.train.hidden": 24,
    "systems.max.model.dropout": 0.2,
    "systems.base.training.max_updates": 3,
    "systems.max.decoding": {"beam": 3},
}


@pytest.mark.slow
@pytest.mark.parametrize("key", _KEYS)
def test_a_run_after_a_change_makes_the_files_of_a_run_from_nothing(
    finished: Workplace, key: str, repository: Path, tmp_path: Path, warm: WarmPython
) -> None:
    """All files, byte by byte, except the states of trainings, and the report, which describes its run."""
    study = _changed(_at(key, _KEYS[key]))
    finished.write_study(study)
    anew = Workplace.new(repository, tmp_path / "anew", study, warm=warm)
    for workplace in (finished, anew):
        done = workplace.snakemake()
        assert done.returncode == 0, done.stderr[-5000:]
    for path in anew.results.rglob("*"):
        if path.is_file() and "state" not in path.parts and not path.name.startswith("report.html"):
            same = finished.results / path.relative_to(anew.results)
            assert same.read_bytes() == path.read_bytes(), same


# Stages that take all test sets at once.
OF_ALL_TEST_SETS = {"compare_splits", "score_system", "score_chunks", "compare_systems"}
OF_ALL_TEST_SETS |= {"score_perplexity", "make_table", "write_report"}


@pytest.mark.slow
def test_a_new_test_set_trains_and_translates_nothing_old(repository: Path, tmp_path: Path, warm: WarmPython) -> None:
    """Nor parses, nor cuts into phrases. Every output is there, as if the study had run."""

    def file(name: str) -> str:
        (tmp_path / name).touch()
        return name

    study = yaml.safe_load(STUDY)
    names = ("train", "dev", "old", "new")
    train, dev, old, new = ([{side: file(f"{name}.{side}") for side in ("source", "target")}] for name in names)
    splits = {"train": train, "dev": dev, "test": {"old": old}}
    dataset = study["datasets"]["demo"]
    dataset |= {"splits": splits, "parse_jobs": 2}
    del dataset["generator"]
    study["parsers"]["english"] = {"language": "en", "published": "ptb3-revised_charlm"}
    chunks = [{"file": file("chunks.txt")}]
    study["chunkers"]["german"] = {"language": "de", "train": {"train": chunks, "test": chunks}}
    workplace = Workplace.new(repository, tmp_path, yaml.safe_dump(study), warm)

    def planned(*, all_files: bool = False) -> set[tuple[str, str]]:
        """Rules and outputs that Snakemake would make."""
        done = workplace.snakemake("--summary")
        assert done.returncode == 0, done.stderr
        header, *rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
        files = [dict(zip(header, row, strict=True)) for row in rows]
        return {(one["rule"], one["output_file"]) for one in files if all_files or one["plan"] != "no update"}

    outputs = planned(all_files=True)
    for _, path in outputs:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    done = workplace.snakemake("--touch", "--forceall")
    assert done.returncode == 0, done.stderr
    splits["test"]["new"] = new
    workplace.write_study(yaml.safe_dump(study))
    found = planned()
    assert {rule for rule, _ in found} >= {
        "translate_examples",
        "parse_sentences",
        "extract_phrases",
        *OF_ALL_TEST_SETS,
    }
    assert not [one for one in found & outputs if one[0] not in OF_ALL_TEST_SETS]


CODE_CHANGES: dict[str, set[str]] = {
    "corpus/clean.py": {"clean_pairs"} | TOKENS,
    "batching/pack.py": EXAMPLES,
    "models/phrase_representation.py": _training("max"),
    "models/biscale.py": TRAINING_OF_CHUNKS,
    "models/language_model.py": TRAINING_OF_THE_LANGUAGE_MODEL,
    "syntax/phrases.py": PHRASES,
    "syntax/segmenters.py": PHRASES,
    "syntax/store.py": ANNOTATIONS,
    "syntax/stanza/training.py": {"train_vectors", "train_tagger", "train_parser", "train_chunker"} | ANNOTATIONS,
    "decoding/translate.py": _translations(*TRANSLATING),
    "decoding/contrasts.py": {f"score_contrasts {name}" for name in TRANSLATING} | {"make_table", "write_report"},
    "decoding/forced_scores.py": {"score_perplexity lm", "score_chunks bi", "make_table", "write_report"},
    "decoding/attention.py": {f"analyse_attention {name}" for name in (*TRANSLATING, "lm")}
    | {"compare_systems max", "make_table", "write_report"},  # comparisons have nats of the references
    "scoring/bleu.py": {f"score_system {name}" for name in TRANSLATING} | _paper(*TRANSLATING),
    "scoring/significance.py": _paper(*TRANSLATING),
    "report/report.py": {"write_report"},
    "corpus/fetch.py": set(),  # no fetched corpus in this study
    "stages/training.py": set(),  # its effect is in the settings
    "study/architectures.py": set(),
    "commands/trace.py": set(),
}


@pytest.fixture
def edit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Lets the digests find other code in a module."""
    read = code._code

    def edit(module: str) -> None:
        monkeypatch.setattr(code, "_code", lambda name: read(name) + (b"edited" if name == module else b""))
        code.code_digest.cache_clear()

    yield edit
    code.code_digest.cache_clear()


@pytest.mark.parametrize(("module", "expected"), CODE_CHANGES.items(), ids=CODE_CHANGES)
def test_changed_code_of_a_stage_reruns_the_stage_and_what_follows(
    jobs: list[Job], edit: Callable[[str], None], module: str, expected: set[str], tmp_path: Path
) -> None:
    edit(f"phrasemt.{module.removesuffix('.py').replace('/', '.')}")
    assert _reruns(jobs, STUDY, tmp_path) == expected


# In modules that code digests leave out, an edit reruns the stages whose settings it changes, and no others.
COMPUTATIONS: dict[str, tuple[type, str, object, set[str]]] = {
    "width that scales the learning rate": (
        Layers,
        "learning_rate_width",
        property(lambda model: 2 * model.width),
        _training("base", "max") | TRAINING_OF_THE_LANGUAGE_MODEL,
    ),
    "sources begin with <s>": (
        PhraseRepresentationModel,
        "source_begins_with_bos",
        property(lambda model: True),
        _training("max"),
    ),
}


@pytest.mark.parametrize(("place", "name", "value", "expected"), COMPUTATIONS.values(), ids=COMPUTATIONS)
def test_another_computation_of_settings_reruns_what_it_changes(
    jobs: list[Job],
    monkeypatch: pytest.MonkeyPatch,
    place: type,
    name: str,
    value: object,
    expected: set[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(place, name, value)
    assert _reruns(jobs, STUDY, tmp_path) == expected


def test_comments_docstrings_cores_profiles_and_messages_rerun_nothing(finished: Workplace) -> None:
    for path in (finished.folder / "phrasemt").rglob("*.py"):
        text = path.read_text().replace('"""', '"""Another docstring. ', 1)
        path.write_text(f"# A comment.\n{text}\n# Another.\n")
    written = list(finished.folder.glob("logs/**/*.settings"))  # no inputs of the jobs
    assert len(written) > 30
    for path in written:
        path.write_text("{}")
    profile = finished.folder / "profiles" / "local" / "profile.yaml"
    profile.write_text(profile.read_text().replace("train_model: 1", "train_model: 2\n  translate_examples: 1"))
    for path in (finished.folder / "rules").glob("*.smk"):
        text = path.read_text().replace('message:\n        "', 'message:\n        "Now: ')
        path.write_text(re.sub(r"threads: .*", "threads: 3", text))
    assert _planned(finished, "--cores", "1") == set()


@pytest.mark.parametrize(
    ("name", "reader"),
    [("translations/{}/1/test.txt", "scores/max/1.json"), ("contrasts/{}/1/test.json", "table.json")],
)
def test_a_stage_refuses_the_file_of_another_system(
    finished: Workplace, name: str, reader: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of two systems were swapped, with their sidecars."""
    monkeypatch.chdir(finished.folder)
    results = Path("results/tiny")
    folder = results / "demo.en-de"
    artefact = results / reader if reader == "table.json" else folder / reader
    sidecar = Sidecar.beside(artefact)
    base, other = (folder / name.format(system) for system in ("base", "max"))
    for one, two in ((base, other), (sidecar_path(base), sidecar_path(other))):
        one.rename("aside")
        two.rename(one)
        Path("aside").rename(two)
    assert main(stage_command(sidecar, sidecar.stage, {})) == 2
    error = capsys.readouterr().err
    assert "copied from elsewhere (expected a sidecar of results/tiny/demo.en-de/" in error


def test_every_command_refuses_a_file_that_is_not_as_its_stage_wrote_it(
    finished: Workplace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(finished.folder)
    paths, study = Paths.of(load_study(Path("study.yaml")), "demo"), ["--study", "study.yaml"]
    of_max = {"system": "max", "seed": 1}
    for path, *command in (
        [paths.table, "show", "study.yaml"],
        [paths.markdown_table, "show", "study.yaml", "--full"],
        [paths.report, "show", "study.yaml", "--figures", "figures"],
        [paths.system_scores.at(**of_max), "compare", "base", "max", *study],
        [paths.translated_tokens.at(split="test", **of_max), "compare", "base", "max", *study],
        [paths.table, "papers", *study],
        [paths.translations.at(split="test", **of_max), "trace", "test:3", *study, "--system", "max"],
        [paths.tokens.at(split="test", language="de"), "trace", "test:3", *study],
        [paths.weights.at(**of_max), "translate", "study.yaml", *study, "--system", "max"],
        [paths.vocabulary.at(language="de"), "force", "study.yaml", "study.yaml", *study, "--system", "max"],
        [paths.translated_text.at(split="test", **of_max), "ratings", "make", "sheets", *study],
        [paths.codes, "export", "exported", *study, "--system", "max"],
        [paths.table, "capsule", "study.yaml"],
    ):
        content = Path(path).read_bytes()
        Path(path).write_bytes(content + b"\n")
        assert main(list(map(str, command))) == 2, command
        assert f"{path}: not the file that " in capsys.readouterr().err, command
        Path(path).write_bytes(content)
