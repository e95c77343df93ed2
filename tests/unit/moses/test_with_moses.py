"""What the real Moses makes of what the stages give it, against slow programs that follow the definitions.

These tests need a Moses (`make moses`, PHRASEMT_MOSES) and are skipped without it.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import sacremoses

from phrasemt.moses.decoding import moses_ini, translate_with_moses, tune_moses, untuned_weights, weights_of_ini
from phrasemt.moses.installation import MOSES, run
from phrasemt.moses.training import (
    REORDERING,
    align_words,
    extract_phrase_table,
    normalize_case,
    train_lm,
    train_truecaser,
)  # fmt: skip
from phrasemt.stages.moses import (
    AlignWords,
    ExtractPhraseTable,
    NormalizeCase,
    TrainLm,
    TrainTruecaser,
    TranslateWithMoses,
    TuneMoses,
)
from phrasemt.study.rows import MosesModel, Search, Tuning
from phrasemt.study.tokenization import Tokenizer
from phrasemt.symbols import escape, unescape

SPECIAL = "&|<>'\"[]"


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips a test where there is no Moses with these programs."""
    folder = Path(os.environ.get(MOSES) or "nowhere")
    missing = [name for name in programs if not os.access(folder / name, os.X_OK)]
    return pytest.mark.skipif(bool(missing), reason=f"{MOSES} names no Moses with {', '.join(missing)}")


ESCAPES = ("scripts/tokenizer/escape-special-chars.perl", "scripts/tokenizer/deescape-special-chars.perl")


@needs(*ESCAPES)
def test_escapes_are_those_of_moses_and_of_sacremoses(tmp_path: Path) -> None:
    """Every special character, alone, in words, in pairs, and escapes that the text itself holds."""
    lines = [*SPECIAL, *(f"a{one}b" for one in SPECIAL), *map("".join, itertools.product(SPECIAL, repeat=2))]
    lines += [escape(line) for line in SPECIAL] + ["&amp;lt;", "&bar;", "&#91", "AT&T", "a &amp b"]
    text, escaped, back = tmp_path / "text", tmp_path / "escaped", tmp_path / "back"
    text.write_text("".join(f"{line}\n" for line in lines))
    run(ESCAPES[0], stdin=text, stdout=escaped, work=tmp_path)
    run(ESCAPES[1], stdin=escaped, stdout=back, work=tmp_path)
    of_moses = escaped.read_text().split("\n")[:-1]
    assert [escape(line) for line in lines] == of_moses
    assert [sacremoses.MosesTokenizer().escape_xml(line) for line in lines] == of_moses
    assert [unescape(line) for line in of_moses] == lines
    # Moses' script replaces one escape after another, &amp; last, as `unescape` does at once.
    assert back.read_text().split("\n")[:-1] == lines


@needs("scripts/recaser/train-truecaser.perl", "scripts/recaser/truecase.perl", "scripts/recaser/detruecase.perl")
def test_true_case_and_back(tmp_path: Path) -> None:
    tokens, truecaser, text = tmp_path / "tokens", tmp_path / "truecaser", tmp_path / "text"
    lines = [
        "The dog sees Anna .",
        "Anna sees the dog .",
        "the end &#124; &quot; The &quot;",
        "",
        "Today the dog sleeps .",
    ]
    tokens.write_text("".join(f"{line}\n" for line in lines))
    train_truecaser(settings=TrainTruecaser(), cores=1, tokens=tokens, truecaser=truecaser)
    normalize_case(settings=NormalizeCase(), cores=1, tokens=tokens, truecaser=[truecaser], text=text)
    cased = text.read_text().split("\n")[:-1]
    assert cased[:2] == ["the dog sees Anna .", "Anna sees the dog ."]
    assert (cased[3], cased[4]) == ("", "Today the dog sleeps .")
    run("scripts/recaser/detruecase.perl", stdin=text, stdout=tmp_path / "restored", work=tmp_path)
    restored = (tmp_path / "restored").read_text().split("\n")
    assert restored[:2] == lines[:2]


def _sentences(seed: int, count: int, words: int) -> list[list[str]]:
    """Sentences of words whose frequencies fall as in texts, in which a word depends on the word before."""
    draw = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(words)]
    weights = [1 / (rank + 1) for rank in range(words)]
    made = []
    for _ in range(count):
        sentence: list[str] = []
        for _ in range(draw.randint(1, 9)):
            again = sentence and draw.random() < 0.4
            number = (int(sentence[-1][1:]) * 7 + 3) % words if again else None
            sentence.append(vocabulary[number] if number is not None else draw.choices(vocabulary, weights)[0])
        made.append(sentence)
    return made


class SlowKneserNey:
    """Interpolated modified Kneser-Ney (Chen and Goodman 1999), as written there, by dictionaries.

    An n-gram of a lower order counts the different words before it; one that begins with <s> counts its occurrences,
    because nothing stands before it. Unigrams are interpolated with the uniform distribution over the words, </s> and
    <unk>.
    """

    def __init__(self, sentences: Sequence[Sequence[str]], order: int) -> None:
        self.order = order
        seen: list[Counter[tuple[str, ...]]] = [Counter() for _ in range(order + 1)]
        for sentence in sentences:
            padded = ["<s>", *sentence, "</s>"]
            for n in range(1, order + 1):
                seen[n].update(tuple(padded[i : i + n]) for i in range(len(padded) - n + 1))
        self.counts: list[dict[tuple[str, ...], int]] = [{} for _ in range(order + 1)]
        self.counts[order] = dict(seen[order])
        for n in range(1, order):
            before: defaultdict[tuple[str, ...], int] = defaultdict(int)
            for gram in seen[n + 1]:
                before[gram[1:]] += 1
            self.counts[n] = {gram: before[gram] if gram[0] != "<s>" else seen[n][gram] for gram in seen[n]}
        del self.counts[1][("<s>",)]
        self.discounts = [self._discounts(self.counts[n]) for n in range(1, order + 1)]
        self.uniform = 1 / (len(self.counts[1]) + 1)
        self.extensions: list[defaultdict[tuple[str, ...], list[int]]] = []
        for n in range(1, order + 1):
            extensions: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
            for gram, count in self.counts[n].items():
                extensions[gram[:-1]].append(count)
            self.extensions.append(extensions)

    @staticmethod
    def _discounts(counts: dict[tuple[str, ...], int]) -> list[float]:
        t = Counter(counts.values())
        y = t[1] / (t[1] + 2 * t[2])
        return [0.0] + [k - (k + 1) * y * t[k + 1] / t[k] for k in (1, 2, 3)]

    def probability(self, context: tuple[str, ...], word: str) -> float:
        n = len(context) + 1
        lower = self.probability(context[1:], word) if context else self.uniform
        extensions = self.extensions[n - 1].get(context)
        if not extensions:
            return lower
        discounts, total = self.discounts[n - 1], sum(extensions)
        count = self.counts[n].get((*context, word), 0)
        saved = sum(discounts[min(other, 3)] for other in extensions) / total
        return max(count - discounts[min(count, 3)], 0) / total + saved * lower

    def log10(self, sentence: Sequence[str]) -> float:
        history = ["<s>"]
        total = 0.0
        for word in (*sentence, "</s>"):
            context = tuple(history[-(self.order - 1) :]) if self.order > 1 else ()
            total += math.log10(self.probability(context, word))
            history.append(word)
        return total


@needs("bin/lmplz", "bin/build_binary", "bin/query")
def test_the_language_model_is_modified_kneser_ney(tmp_path: Path) -> None:
    train, test = _sentences(1, 900, 1000), _sentences(2, 50, 1000)
    test.append(["w1", "never-seen", "w2"])
    text, model, asked = tmp_path / "text", tmp_path / "lm", tmp_path / "asked"
    text.write_text("".join(f"{' '.join(sentence)}\n" for sentence in train))
    train_lm(settings=TrainLm(order=3), cores=1, text=text, language_model=model)
    asked.write_text("".join(f"{' '.join(sentence)}\n" for sentence in test))
    run("bin/query", "-v", "sentence", model, stdin=asked, stdout=tmp_path / "scores", work=tmp_path)
    scores = [float(found) for found in re.findall(r"Total: (\S+)", (tmp_path / "scores").read_text())]
    slow = SlowKneserNey(train, 3)
    # The sum of the probabilities of all words, unseen ones included, shows that the slow program is right, too.
    words = [gram[0] for gram in slow.counts[1]] + ["never-seen"]
    assert sum(slow.probability(("w1", "w2"), word) for word in words) == pytest.approx(1)
    # KenLM keeps logarithms in 32 bits, and prints six digits.
    assert scores == pytest.approx([slow.log10(sentence) for sentence in test], rel=2e-5)


def _parallel(seed: int, count: int) -> tuple[list[list[str]], list[list[str]], list[set[tuple[int, int]]]]:
    """Pairs by a dictionary of 40 words, with two neighbours swapped in some, and their links."""
    draw = random.Random(seed)
    sources, targets, links = [], [], []
    for _ in range(count):
        source = [draw.randrange(40) for _ in range(draw.randint(2, 8))]
        order = list(range(len(source)))
        if draw.random() < 0.3:
            place = draw.randrange(len(order) - 1)
            order[place], order[place + 1] = order[place + 1], order[place]
        sources.append([f"s{word}" for word in source])
        targets.append([f"t{source[position]}" for position in order])
        links.append({(position, place) for place, position in enumerate(order)})
    return sources, targets, links


def _write(path: Path, sentences: Sequence[Sequence[str]]) -> Path:
    path.write_text("".join(f"{' '.join(sentence)}\n" for sentence in sentences))
    return path


def _ibm_model_1(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]], rounds: int = 10
) -> list[set[tuple[int, int]]]:
    """The best source word of each target word by IBM model 1 (Brown et al. 1993), trained by EM."""
    t: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for _ in range(rounds):
        pairs: defaultdict[tuple[str, str], float] = defaultdict(float)
        totals: defaultdict[str, float] = defaultdict(float)
        for source, target in zip(sources, targets, strict=True):
            for word in target:
                norm = sum(t[other, word] for other in source)
                for other in source:
                    pairs[other, word] += t[other, word] / norm
                    totals[other] += t[other, word] / norm
        t = {pair: count / totals[pair[0]] for pair, count in pairs.items()}
    return [
        {(max(range(len(source)), key=lambda i: t[source[i], word]), j) for j, word in enumerate(target)}
        for source, target in zip(sources, targets, strict=True)
    ]


def _align(
    folder: Path, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> list[set[tuple[int, int]]]:
    align_words(
        settings=AlignWords(max_words=80), cores=1,
        source=_write(folder / "source", sources), target=_write(folder / "target", targets),
        kept_source=folder / "kept.source", kept_target=folder / "kept.target", alignment=folder / "alignment",
    )  # fmt: skip
    return [
        {(int(i), int(j)) for i, j in (link.split("-") for link in line.split())}
        for line in (folder / "alignment").read_text().split("\n")[:-1]
    ]


@needs("bin/fast_align", "bin/atools")
def test_words_are_aligned(tmp_path: Path) -> None:
    """Nearly all links of a text without ambiguity are found; IBM model 1 finds the same where no word comes twice."""
    sources, targets, links = _parallel(3, 400)
    found = _align(tmp_path, sources, targets)
    right = sum(len(one & other) for one, other in zip(found, links, strict=True))
    assert right / sum(map(len, links)) > 0.97
    assert right / sum(map(len, found)) > 0.97
    model_1 = _ibm_model_1(sources, targets)
    unambiguous = [number for number, source in enumerate(sources) if len(set(source)) == len(source)]
    same = sum(found[number] == model_1[number] for number in unambiguous)
    assert same / len(unambiguous) > 0.9


def _consistent_phrases(
    source: Sequence[str], target: Sequence[str], links: set[tuple[int, int]], longest: int
) -> Iterator[tuple[str, str]]:
    """All pairs of spans with a link inside and no link that leaves them (Koehn, Och and Marcu 2003)."""
    for i1, i2 in itertools.combinations_with_replacement(range(len(source)), 2):
        for j1, j2 in itertools.combinations_with_replacement(range(len(target)), 2):
            if i2 - i1 >= longest or j2 - j1 >= longest:
                continue
            inside = [i1 <= i <= i2 and j1 <= j <= j2 for i, j in links]
            leaving = [(i1 <= i <= i2) != (j1 <= j <= j2) for i, j in links]
            if any(inside) and not any(leaving):
                yield " ".join(source[i1 : i2 + 1]), " ".join(target[j1 : j2 + 1])


EXTRACT = ("bin/extract", "bin/score", "bin/consolidate", "bin/lexical-reordering-score")


@needs("scripts/training/train-model.perl", *EXTRACT)
def test_the_phrase_table_has_the_consistent_pairs(tmp_path: Path) -> None:
    draw = random.Random(5)
    sources, targets, links = _parallel(4, 40)
    # Words without a link, and words with several, make the cases that differ.
    links = [{link for link in one if draw.random() < 0.7} for one in links]
    links = [one | {(0, draw.randrange(len(target)))} for one, target in zip(links, targets, strict=True)]
    alignment = tmp_path / "alignment"
    alignment.write_text("".join(" ".join(f"{i}-{j}" for i, j in sorted(one)) + "\n" for one in links))
    extract_phrase_table(
        settings=ExtractPhraseTable(), cores=1,
        source=_write(tmp_path / "source", sources), target=_write(tmp_path / "target", targets), alignment=alignment,
        phrase_table=tmp_path / "pt.gz", reordering_table=tmp_path / "rt.gz",
    )  # fmt: skip
    counts: Counter[tuple[str, str]] = Counter()
    for source, target, one in zip(sources, targets, links, strict=True):
        counts.update(_consistent_phrases(source, target, one, 7))
    found = {}
    for line in gzip.decompress((tmp_path / "pt.gz").read_bytes()).decode().split("\n")[:-1]:
        fields = line.split(" ||| ")
        found[fields[0], fields[1]] = [float(score) for score in fields[2].split()]
    assert found.keys() == counts.keys()
    of_source, of_target = Counter[str](), Counter[str]()
    for (source_phrase, target_phrase), count in counts.items():
        of_source[source_phrase] += count
        of_target[target_phrase] += count
    for (source_phrase, target_phrase), scores in found.items():
        count = counts[source_phrase, target_phrase]
        # Relative frequencies in both directions; the file has six digits.
        assert scores[0] == pytest.approx(count / of_target[target_phrase], rel=1e-4)
        assert scores[2] == pytest.approx(count / of_source[source_phrase], rel=1e-4)


@needs("scripts/training/train-model.perl")
def test_features_and_untuned_weights_are_those_of_train_model(tmp_path: Path) -> None:
    (tmp_path / "lm").touch()
    run(
        "scripts/training/train-model.perl", "-root-dir", tmp_path, "-corpus", tmp_path / "text", "-f", "source", "-e",
        "target", "-alignment", "any", "-first-step", 9, "-last-step", 9, "-reordering", REORDERING,
        "-lm", f"0:4:{tmp_path}/lm:8", work=tmp_path,
    )  # fmt: skip
    theirs = (tmp_path / "model/moses.ini").read_text()
    model = MosesModel(family="moses")
    tables = (tmp_path / "model/phrase-table.gz", tmp_path / f"model/reordering-table.wbe-{REORDERING}.gz")
    ours = moses_ini(model, Search(), tmp_path / "lm", *tables, untuned_weights())

    def features(ini: str) -> list[str]:
        return [line for line in ini.split("[feature]")[1].split("[weight]")[0].split("\n") if line and line[0] != "#"]

    assert features(ours) == features(theirs)
    (tmp_path / "ours.ini").write_text(ours)
    assert weights_of_ini(tmp_path / "ours.ini") == weights_of_ini(tmp_path / "model/moses.ini")


DECODER = (
    *("bin/lmplz", "bin/build_binary", "bin/fast_align", "bin/atools", *EXTRACT, "bin/moses", "bin/extractor"),
    *("bin/mert", "bin/pro", "bin/kbmira", "bin/evaluator", "scripts/training/mert-moses.pl"),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A phrase-based model of a corpus without ambiguity, and dev, by the names of the stages' inputs."""
    folder = tmp_path_factory.mktemp("trained")
    sources, targets, _ = _parallel(6, 500)
    _align(folder, sources[40:], targets[40:])
    train_lm(settings=TrainLm(order=3), cores=1, text=folder / "target", language_model=folder / "lm")
    extract_phrase_table(
        settings=ExtractPhraseTable(), cores=1,
        source=folder / "kept.source", target=folder / "kept.target", alignment=folder / "alignment",
        phrase_table=folder / "pt.gz", reordering_table=folder / "rt.gz",
    )  # fmt: skip
    return {
        "language_model": folder / "lm",
        "phrase_table": folder / "pt.gz",
        "reordering_table": folder / "rt.gz",
        "source": _write(folder / "dev.source", sources[:40]),
        "reference": _write(folder / "dev.target", targets[:40]),
    }


_MODEL = MosesModel.model_validate({"family": "moses", "lm_order": 3})


def _translate(trained: dict[str, Path], source: Path, folder: Path, weights: list[Path], cores: int = 1) -> list[str]:
    settings = TranslateWithMoses(model=_MODEL, decoding=Search(), target_tokenizer=Tokenizer.for_language("de"))
    translate_with_moses(
        settings=settings, cores=cores, weights=weights, tokens=folder / "out.tok", text=folder / "out.txt",
        **{**{name: path for name, path in trained.items() if name != "reference"}, "source": source},
    )  # fmt: skip
    return (folder / "out.tok").read_text().split("\n")[:-1]


@needs(*DECODER)
def test_translations_of_any_text(trained: dict[str, Path], tmp_path: Path) -> None:
    """Known words, signs of Moses' formats, a blank line, and 200 words."""
    special = escape("a | ||| [b] <c> </s> 'd' \"e\" & &amp; [X][X] <unk>")
    lines = ["s1 s2 s3", special, "", " ".join(["s1"] * 200)]
    source = tmp_path / "source"
    source.write_text("".join(f"{line}\n" for line in lines))
    one = _translate(trained, source, tmp_path, [])
    assert one[0].lower() == "t1 t2 t3"
    assert sorted(one[1].lower().split()) == sorted(special.lower().split())  # unknown words are copied
    assert (one[2], len(one[3].split())) == ("", 200)
    assert _translate(trained, source, tmp_path, [], cores=2) == one


def _tuning(folder: Path, runs: int, tuner: str, seed: int) -> tuple[TuneMoses, dict[str, Path]]:
    tuning = Tuning.model_validate({"tuner": tuner, "runs": runs})
    settings = TuneMoses(model=_MODEL, decoding=Search(), tuning=tuning, seed=seed)
    return settings, {"weights": folder / "weights.json", "state": folder / "state"}


@needs(*DECODER)
@pytest.mark.slow
@pytest.mark.parametrize("tuner", ["mira", "mert"])
def test_a_killed_tuning_ends_with_the_same_weights(trained: dict[str, Path], tmp_path: Path, tuner: str) -> None:
    (tmp_path / "whole").mkdir()
    settings, places = _tuning(tmp_path / "whole", 3, tuner, 1)
    tune_moses(settings=settings, cores=1, **trained, **places)
    whole = json.loads(places["weights"].read_text())
    assert 0 < whole["bleu"] <= 100
    (tmp_path / "killed").mkdir()
    settings, places = _tuning(tmp_path / "killed", 3, tuner, 1)
    command = [sys.executable, "-m", "phrasemt", "tune_moses", "--settings", settings.model_dump_json()]
    for name, path in (trained | places).items():
        command += [f"--{name.replace('_', '-')}", str(path)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as victim:
        while not list(places["state"].glob("*/finished_step.txt")):
            assert victim.poll() is None
            time.sleep(0.02)
        victim.send_signal(signal.SIGTERM)
    assert not places["weights"].exists()
    tune_moses(settings=settings, cores=1, **trained, **places)
    assert json.loads(places["weights"].read_text()) == whole
