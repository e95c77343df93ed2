"""A study of more trainings than the arguments of a program can name.

Linux allows 131,072 bytes for one argument, and about two million for all of them.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from golden import SENTENCES, SYSTEMS, GoldenStudy
from snakemake.shell import shell
from warm_python import WarmPython
from workplace import STUDY, Workplace

from phrasemt.artefacts.corpus import DroppedPairs, RoundTrip
from phrasemt.artefacts.scores import SystemScores
from phrasemt.artefacts.table import Table
from phrasemt.files.attention import ForcedSentence, write_forced
from phrasemt.files.lines import write_lines
from phrasemt.stages import STAGES
from phrasemt.workflow.check import read_study
from phrasemt.workflow.flow import Flow

_SYSTEMS, _SEEDS = 40, 30


def _large() -> str:
    study = yaml.safe_load(STUDY)
    names = [f"a_system_whose_name_is_neither_short_nor_long_{number}" for number in range(_SYSTEMS)]
    study["systems"] = dict.fromkeys(names, study["systems"]["base"])
    return yaml.safe_dump(study | {"seeds": list(range(_SEEDS)), "comparison": {"baseline": names[0], "samples": 10}})


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["make_table", "write_report", "compare_systems"])
def test_a_shell_starts_the_command_of_a_large_study(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    Path("study.yaml").write_text(_large())
    flow = Flow(read_study(Path("study.yaml")))
    scores = flow.every(flow.paths.system_scores)
    assert len(scores) == _SYSTEMS * _SEEDS
    *present, absent = [f"{path}.{number}" for path in scores for number in range(21)]
    assert sum(map(len, present)) > 2_200_000
    for path in present:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    wildcards = SimpleNamespace(dataset="demo", source="en", target="de", system=list(flow.study.systems)[1])
    wildcards.items = vars(wildcards).items
    params = {name: value(wildcards) for name, value in flow.params(stage).items()}
    params["settings"] += " " * 200_000
    inputs: dict[str, object] = dict.fromkeys(STAGES[stage].inputs, "")
    *_, last = [file.name for file in STAGES[stage].stage_files("input") if file.many]
    single = {file.name: present[0] for file in STAGES[stage].stage_files("input") if not file.many}
    log = Path("logs/job.log")
    log.parent.mkdir()
    with pytest.raises(Exception, match="exit status 2"):  # of an error that phrasemt explains
        shell(
            flow.command(stage),
            input=SimpleNamespace(**inputs | single | {last: _Names([*present, absent])}),
            output=SimpleNamespace(**{name: f"made.{name}" for name in STAGES[stage].outputs}),
            params=SimpleNamespace(**params),
            log=_Names([str(log)]),
            threads=1,
        )
    assert f"error: {absent}: no such input file" in log.read_text()
    assert Path("logs/job.log.settings").read_text() == f"{params['settings']}\n"


class _Names(list[str]):
    """Files of a job, which Snakemake quotes for the shell."""

    def __format__(self, form: str) -> str:
        return " ".join(self)


class _Invented(GoldenStudy):
    """What 1,000 trainings would have made; the scores of the first seed are those of all."""

    def _translate(self, dataset: str, test_set: str, system: str, seed: int) -> None:
        if seed == 1:
            super()._translate(dataset, test_set, system, seed)

    def score(self, dataset: str, system: str, seed: int, **changes: list[Path]) -> None:
        names = {"dataset": dataset, "system": system, "seed": str(seed)}
        if seed == 1:  # of which the report looks at the translation
            super().score(dataset, system, seed, **changes)
        else:
            scores = SystemScores.read(self.path("system_scores", dataset, system=system, seed=1))
            scores = scores.model_copy(update={"seed": seed})
            self._write("score_system", {"scores": scores}, **names)

    def _score_contrasts(self, system: str, seed: int) -> None:
        """The study has none."""

    def _annotate(self) -> None:
        """Without parsers and chunks: what else the report reads of texts and of the first seed of each system."""
        (dataset,) = self.study.datasets
        test_sets = self.study.datasets[dataset].test_sets
        dropped = DroppedPairs(raw_pairs=SENTENCES, kept=SENTENCES, dropped=[])
        for split, language in itertools.product(("train", "dev", *test_sets), ("de", "en")):
            names = {"dataset": dataset, "split": split}
            round_trip = RoundTrip(language=language, score=99.0, signature="nrefs:1", lines=SENTENCES, changed_lines=0)
            self._write("tokenize_text", {"round_trip": round_trip}, **names, language=language)
            if split in test_sets:
                self._write("clean_pairs", {"dropped": lambda path: write_lines(path, dropped.lines)}, **names)
                tokens = self.path("tokens", dataset, split=split, language=language).read_text()
                self._write("apply_subwords", {"subwords": tokens}, **names, language=language)
        sentence = ForcedSentence(
            row=0, source=["ein", "</s>"], target=["one", "</s>"], log_probs=[0.0, 0.0], attentions=[]
        )
        for system, test_set in itertools.product(self.study.forced, test_sets):
            names = {"dataset": dataset, "split": test_set, "system": system, "seed": "1"}
            self._write("analyse_attention", {"attention": lambda path: write_forced(path, [sentence])}, **names)


@pytest.mark.slow
def test_40_systems_with_10_seeds_and_5_test_sets(
    repository: Path, tmp_path: Path, warm: WarmPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the plan to the report, on invented scores."""
    names = [f"system_{number}" for number in range(40)]
    texts = [{"corpus": "multi30k", "part": "train"}]
    content = {
        "study": "large",
        "seeds": list(range(1, 11)),
        "comparison": {"samples": 100},
        "datasets": {
            "captions": {
                "source_language": "de",
                "target_language": "en",
                "splits": {"train": texts, "dev": texts, "test": {f"test_{number}": texts for number in range(5)}},
            }
        },
        "systems": {name: {"model": {"family": "transformer"}} for name in names},
    }
    workplace = Workplace.new(repository, tmp_path / "large", yaml.safe_dump(content, sort_keys=False), warm)
    planned = workplace.snakemake("-n", "--quiet", "all")
    assert planned.returncode == 0, planned.stderr[-3000:]
    for number, name in enumerate(names):
        monkeypatch.setitem(SYSTEMS, name, (0.2 + number / 1000, None, {"family": "transformer"}))
    monkeypatch.chdir(workplace.folder)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)  # of thousands of files
        _Invented(read_study(Path("study.yaml"))).build()
    rules = ("measure_variation", "compare_systems", "make_table", "write_report")
    done = workplace.snakemake("results/large/report.html", "--allowed-rules", *rules)
    assert done.returncode == 0, done.stderr[-3000:]
    table = Table.read(Path("results/large/table.json"))
    assert [name for name, _ in table.systems] == names
