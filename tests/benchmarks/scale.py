"""What grows with the corpus and with the study: CPU time and memory at three sizes, and the exponent of the growth.

Run: python tests/benchmarks/scale.py --help. Each measurement is a process of its own, which works alone on one core.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

from phrasemt.artefacts.scores import SystemScores
from phrasemt.artefacts.syntax import Card, ModelFile
from phrasemt.files.lines import write_lines
from phrasemt.scoring.bleu import score_system
from phrasemt.scoring.significance import compare_systems, measure_variation
from phrasemt.stages.scoring import CompareSystems, MeasureVariation, ScoreSystem
from phrasemt.stages.subwords import ApplySubwords, LearnSubwords
from phrasemt.stages.syntax import AnnotateSentences
from phrasemt.study.tokenization import Tokenizer
from phrasemt.syntax import annotate
from phrasemt.syntax.annotations import Annotation
from phrasemt.text.subwords import apply_subwords, learn_subwords
from phrasemt.text.tokenize import line_tokenizer

WORDS = [f"w{number}" for number in range(5_000)]
MERGES = 32_000
EXPONENT = 1.1  # of frequencies by rank: WMT14 En-De has about 10 million of its first type and 2.5 million types
Measured = Iterator[tuple[str, float]]


class InstantParser:
    """Annotates at once, so that only the store takes time."""

    def annotate(self, sentences: Sequence[Sequence[str]]) -> list[Annotation]:
        return [Annotation(f"(S {' '.join(f'(NN {i})' for i in range(len(s)))})", None) for s in sentences]


def store(folder: Path, sentences: int, _: Path | None) -> Measured:
    """Parse sentences of 14 tokens with an empty store, then find 1,000 of them."""
    module: object = SimpleNamespace(load_annotator=lambda card: InstantParser())
    sys.modules["phrasemt.syntax.stanza.annotators"] = module  # type: ignore[assignment]
    annotate._processes = lambda cores: cores  # which would import torch
    files = {"constituency": ModelFile(path=folder / "model.pt", sha256="0" * 64)}
    Card(kind="constituency", origin="trained", language="en", stanza="0", files=files, options={}).write(
        folder / "card"
    )
    drawn = random.Random(1)
    lines = [f"{' '.join(drawn.choices(WORDS, k=13))} {number}" for number in range(sentences)]
    write_lines(folder / "all", lines)
    write_lines(folder / "some", lines[:: max(1, sentences // 1000)][:1000])
    for text, what in (("all", "add, s"), ("some", "find 1,000, s")):
        start = cpu_seconds()
        annotate.parse_sentences(
            settings=AnnotateSentences(job=0, jobs=1),
            cores=1,
            tokens=folder / text,
            annotator=folder / "card",
            annotations=folder / "annotations",
            cache=folder / "cache",
        )
        yield what, cpu_seconds() - start
    yield "files", sum(1 for _ in (folder / "cache").rglob("*.arrow"))


def subwords(folder: Path, types: int, corpora: Path | None) -> Measured:
    """Learn merges on so many word types, and apply them to a text that has each type once."""
    counts = zipf(word_types(corpora), types)
    write_lines(folder / "tokens", (" ".join([word] * count) for word, count in counts))
    settings = LearnSubwords(merges=MERGES)
    made = {"codes": folder / "codes", "source_counts": folder / "counts", "target_counts": folder / "counts"}
    start = cpu_seconds()
    learn_subwords(settings=settings, cores=1, source=folder / "tokens", target=folder / "tokens", **made)
    yield "learn, s", cpu_seconds() - start
    yield "learn, MB", peak()
    words = [word for word, _ in counts]
    write_lines(folder / "once", (" ".join(words[start : start + 25]) for start in range(0, len(words), 25)))
    start = cpu_seconds()
    apply_subwords(
        settings=ApplySubwords(vocabulary_threshold=0),
        cores=1,
        tokens=folder / "once",
        codes=made["codes"],
        counts=made["source_counts"],
        subwords=folder / "subwords",
    )
    yield "apply, µs a type", (cpu_seconds() - start) / types * 1e6


def zipf(real: list[str], types: int) -> list[tuple[str, int]]:
    """So many types with the frequencies of Zipf's law, of which the last is 1.

    Beyond the real types, each joins the begin of a real type to the end of another, as compounds do.
    """
    drawn = random.Random(1)
    words = dict.fromkeys(real[:types])
    while len(words) < types:
        first, second = drawn.choices(real, k=2)
        words.setdefault(first[: drawn.randint(1, len(first))] + second[-drawn.randint(1, len(second)) :])
    return [(word, round((types / rank) ** EXPONENT)) for rank, word in enumerate(words, 1)]


def word_types(corpora: Path | None) -> list[str]:
    """The types of the texts in a folder, by falling frequency; without a folder, drawn strings of letters."""
    counts: Counter[str] = Counter()
    if corpora is None:
        drawn = random.Random(1)
        return ["".join(drawn.choices("etaoinshrdlu", k=drawn.randint(2, 9))) for _ in range(2_000)]
    for path in sorted(corpora.glob("*/*")):
        tokenize = line_tokenizer(Tokenizer.for_language("de" if ".de" in path.name else "en"))
        for line in _lines(path):
            counts.update(tokenize(line).split(" "))
    del counts[""]
    return [word for word, _ in counts.most_common()]


def _lines(path: Path) -> Iterator[str]:
    if path.suffix == ".gz" and ".fr" not in path.name:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            yield from stream
    elif path.suffix in (".eng", ".deu", ".raw"):
        yield from path.open(encoding="utf-8")
    elif path.name == "deu-eng.zip":
        with zipfile.ZipFile(path) as archive, archive.open("deu.txt") as stream:
            yield from (line.replace("\t", " ") for line in io.TextIOWrapper(stream, encoding="utf-8"))


def score(folder: Path, sentences: int, _: Path | None) -> Measured:
    """Score drawn sentences of 24 words, of which a quarter of the words differs from the reference or has moved."""
    drawn = random.Random(1)
    references = [drawn.choices(WORDS, k=24) for _ in range(sentences)]
    hypotheses = []
    for words in references:
        changed = list(words)
        for _ in range(4):
            changed[drawn.randrange(len(words))] = drawn.choice(WORDS)
        changed.insert(drawn.randrange(len(words)), changed.pop(drawn.randrange(len(words))))
        hypotheses.append(changed)
    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        write_lines(folder / name, map(" ".join, lines))
    before = cpu_seconds()
    score_system(
        settings=ScoreSystem(
            dataset="drawn",
            system="base",
            seed=1,
            test_sets=["test"],
            references=[1],
            target_tokenizer=Tokenizer.for_language("de"),
        ),
        cores=1,
        tokens=[folder / "hypotheses"],
        text=[folder / "hypotheses"],
        reference_tokens=[folder / "references"],
        reference=[folder / "references"],
        scores=folder / "scores.json",
    )
    yield "score, s", cpu_seconds() - before


def compare(folder: Path, systems: int, _: Path | None) -> Measured:
    """Compare two of so many systems of 10 trainings on 3,000 sentences, and first measure how trainings vary."""
    next(score(folder, 3_000, None))
    scores = SystemScores.read(folder / "scores.json")
    names, files = [f"system_{number}" for number in range(systems)], list[list[Path]]()
    for name in names:
        files.append([folder / f"{name}-{seed}.json" for seed in range(10)])
        for seed, path in enumerate(files[-1]):
            scores.model_copy(update={"system": name, "seed": seed}).write(path)
    draws = {"dataset": "drawn", "kinds": dict.fromkeys(names, "attention"), "samples": 1000}
    before = cpu_seconds()
    measure_variation(
        settings=MeasureVariation.model_validate(draws),
        cores=1,
        repeated=[path for paths in files for path in paths],
        repeated_metrics=[],
        repeated_forced=[],
        variation=folder / "variation.json",
    )
    yield "variation, s", cpu_seconds() - before
    before = cpu_seconds()
    compare_systems(
        settings=CompareSystems.model_validate(draws | {"baseline": names[0], "system": names[1]}),
        cores=1,
        baseline=files[0],
        system=files[1],
        variation=[folder / "variation.json"],
        baseline_metrics=[],
        system_metrics=[],
        forced=[],
        comparison=folder / "comparison.json",
    )
    yield "a comparison, s", cpu_seconds() - before


def cpu_seconds() -> float:
    return sum(map(_of_process, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _of_process(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def peak() -> float:
    """The largest memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# Part -> its three sizes.
PARTS: dict[Callable[[Path, int, Path | None], Measured], tuple[int, ...]] = {
    store: (25_000, 100_000, 400_000),
    subwords: (100_000, 200_000, 400_000),
    score: (1_250, 2_500, 5_000),
    compare: (2, 4, 8),
}


def measure(part: str, size: int, corpora: Path | None) -> dict[str, float]:
    """The figures of one size, measured in another process."""
    program = [sys.executable, __file__, "--parts", part, "--measure", str(size)]
    done = subprocess.run(
        program + (["--corpora", str(corpora)] if corpora else []), check=True, stdout=subprocess.PIPE, text=True
    )
    return dict(json.loads(done.stdout))


def main() -> None:
    parts = {part.__name__: part for part in PARTS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--scale", type=float, default=1, help="of all sizes (default: 1)")
    parser.add_argument("--corpora", type=Path, help="a folder of real corpora, for their word types")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)  # one size, in this process
    options = parser.parse_args()
    if options.measure:
        (name,) = options.parts
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps([*parts[name](Path(folder), options.measure, options.corpora), ("peak, MB", peak())]))
        return
    for name in options.parts:
        sizes = [max(2, round(size * options.scale)) for size in PARTS[parts[name]]]
        grew = sizes[-1] > sizes[0]  # not with a small --scale
        found = [measure(name, size, options.corpora) for size in sizes]
        print(f"| {name} | {' | '.join(f'{size:,}' for size in sizes)} | exponent |")
        for what in found[0]:
            values = [of_size[what] for of_size in found]
            exponent = (
                math.log(values[-1] / values[0]) / math.log(sizes[-1] / sizes[0]) if grew and all(values) else math.nan
            )
            print(f"| {what} | {' | '.join(f'{value:,.2f}' for value in values)} | {exponent:.2f} |", flush=True)


if __name__ == "__main__":
    main()
