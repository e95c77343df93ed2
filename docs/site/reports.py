"""The reports of the site: pages of studies from their published trainings, docs/results/<study>.json.xz.

A file has translations and statistics of scores, but no weights, parses, attention or losses. So a page has findings,
the explorer, results and scorecard. The generator of the demo's corpus gives sources and references; their checksums
must be those of the published scores. Texts of other corpora are not in the repository, so their studies have no page.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from democorpus.pairs import DemoPair, demo_pairs
from phrasemt.artefacts.scores import Comparison, SystemScores
from phrasemt.artefacts.table import Table
from phrasemt.artefacts.training import AverageScores
from phrasemt.artefacts.translations import ChunkAccuracies, ContrastAccuracy, ContrastDecisions
from phrasemt.errors import check_equal
from phrasemt.files.digests import digest_bytes
from phrasemt.files.yaml import parse_yaml
from phrasemt.report.blocks import average_blocks, chunk_blocks, contrast_blocks
from phrasemt.report.page import fill, write_page
from phrasemt.report.scores import score_blocks
from phrasemt.report.sections.results import findings_section, results_section, scorecard_section
from phrasemt.report.sections.sentences import TestSetContent, sentence_bleu, sentences_section
from phrasemt.report.tables import table_of
from phrasemt.scoring.significance import compare_systems
from phrasemt.stages.report import MakeTable
from phrasemt.stages.scoring import CompareSystems
from phrasemt.study.schema import Study
from phrasemt.text.tokenize import line_tokenizer

_REPOSITORY = Path(__file__).parents[2]
sys.path.append(str(_REPOSITORY / "docs" / "results"))

from runs import Run, read_runs  # noqa: E402 - a folder of scripts

# The published studies of the generated corpus, with their files.
STUDIES = {
    "demo": "config.yaml",
    "demo-phrases": "studies/demo-phrases.yaml",
    "demo-families": "studies/demo-families.yaml",
}
_DATASET, _TEST_SET = "demo", "test"


def index() -> Iterator[str]:
    """The lines of the page that names the reports."""
    yield "# Reports"
    yield """
Open a report to see what each system did with each sentence; nothing has to run for that. Each page is made from the
published trainings of a study (`docs/results.md`): findings, the explorer, results with tests, scorecard.
Parses, phrases and attention are in the report of a run of your own (`docs/tutorials/demo.md`), because the published
files have no weights. The studies of Multi30k and Tatoeba have no page here: their texts are not ours to pass on.

| study | report |
|---|---|"""
    for study, file in STUDIES.items():
        yield f"| `{file}` | [{study}]({study}.html) |"


def write_reports(folder: Path) -> None:
    """Write the page of each study into the folder."""
    for name, file in STUDIES.items():
        published = [run for run in read_runs(name) if run.dataset == _DATASET]
        study = _of_runs(_REPOSITORY / file, published)
        published = [run for run in published if run.system in study.systems]
        with tempfile.TemporaryDirectory() as workplace, contextlib.chdir(workplace):
            page = _page(study, published)
        (folder / f"{name}.html").write_text(page)


def _of_runs(path: Path, published: Sequence[Run]) -> Study:
    """The study with the systems and the seeds that are published."""
    raw = parse_yaml(path.read_text())
    seeds: dict[str, list[int]] = {}
    for run in published:
        seeds.setdefault(run.system, []).append(run.seed)
    raw["systems"] = {
        name: system | {"seeds": sorted(seeds[name])} for name, system in raw["systems"].items() if name in seeds
    }
    raw["seeds"] = sorted({run.seed for run in published if run.system in raw["systems"]})
    return Study.model_validate(raw)


def _page(study: Study, published: Sequence[Run]) -> str:
    """The page of a study. Writes the files of its table into the working folder."""
    table = _table(study, published)
    titles = study.titles
    content = _content(study, [run for run in published if run.seed == study.seeds[0]])
    sections = [
        findings_section(table),
        sentences_section(table, {(_DATASET, _TEST_SET): content}),
        results_section(table),
        scorecard_section(table),
    ]
    introduction = fill("report.html", table=table, titles=titles)
    return write_page(table.title, introduction, [section for section in sections if section is not None])


def _table(study: Study, published: Sequence[Run]) -> Table:
    """Test and tabulate the published scores."""
    scores: dict[str, list[Path]] = {}
    contrasts, averages, chunks, comparisons = [], [], [], []
    for run in published:
        about = {"dataset": run.dataset, "system": run.system, "seed": run.seed}
        at = {"study": study.study, "source": "en", "target": "de", **about}
        part = run.test_sets[_TEST_SET]
        path = _new(SystemScores.pattern.at(**at))
        SystemScores(**about, test_sets={_TEST_SET: part.scores}).write(path)
        scores.setdefault(run.system, []).append(path)
        if part.contrasts:
            contrasts.append(_new(ContrastAccuracy.pattern.at(**at, split=_TEST_SET)))
            nothing = ContrastDecisions(kinds=[], distances=[], right=[])  # the files have only their counts
            ContrastAccuracy(**about, contrast_set=_TEST_SET, kinds=part.contrasts, decisions=nothing).write(
                contrasts[-1]
            )
        if part.chunks:
            chunks.append(_new(ChunkAccuracies.pattern.at(**at)))
            ChunkAccuracies(**about, test_sets={_TEST_SET: part.chunks}).write(chunks[-1])
        if run.average:
            averages.append(_new(AverageScores.pattern.at(**at)))
            AverageScores(**about, **run.average).write(averages[-1])
    for system, baseline in study.baselines.items():
        wildcards = {"study": study.study, "dataset": _DATASET, "source": "en", "target": "de", "system": system}
        comparisons.append(_new(Comparison.pattern.at(**wildcards)))
        compare_systems(
            settings=CompareSystems.from_study(study, wildcards),
            cores=1,
            baseline=scores[baseline],
            system=scores[system],
            repeated=[path for name in study.repeated for path in scores[name]],
            baseline_metrics=[],
            system_metrics=[],
            repeated_metrics=[],
            comparison=comparisons[-1],
        )
    settings = MakeTable.from_study(study, {})
    files = [path for paths in scores.values() for path in paths]
    blocks = [
        *score_blocks(settings, files, [], comparisons),
        *chunk_blocks(settings, chunks),
        *contrast_blocks(settings, contrasts),
        *average_blocks(settings, averages),
    ]
    return table_of(settings, blocks)


@functools.cache
def _pairs(split: str, pairs: int, seed: int) -> list[DemoPair]:
    """The pairs of a split, which all studies share."""
    return list(demo_pairs(split=split, pairs=pairs, seed=seed))


def _new(path: str) -> Path:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return Path(path)


def _content(study: Study, published: Sequence[Run]) -> TestSetContent:
    """The sentences with the outputs of one seed. Raises MismatchError when they are not those that were scored."""
    dataset = study.datasets[_DATASET]
    assert dataset.generator is not None
    pairs = _pairs(_TEST_SET, dataset.generator.test, dataset.generator.seed)
    source, target = (line_tokenizer(dataset.tokenizer(side)) for side in ("source", "target"))
    reference = [target(pair.target) for pair in pairs]
    content = TestSetContent([source(pair.source) for pair in pairs], reference)
    found = digest_bytes("".join(f"{line}\n" for line in reference).encode())
    for run in published:
        part = run.test_sets[_TEST_SET]
        what = "the generated test set is not the one of the published scores"
        next_step = "name the seed and the size of the generator with which the study ran"
        check_equal(part.references["tokens"], [found], what, where=f"{study.study}, {run.system}", next_step=next_step)
        content.outputs[run.system] = list(map(target, part.translations))
        content.scores[run.system] = list(map(sentence_bleu, part.scores.statistics["bleu_tok"]))
    return content
