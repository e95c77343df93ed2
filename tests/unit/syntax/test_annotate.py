"""The stages that fill the store, with an annotator that is a function of the tokens. Witness: that function."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from processes import descendants, wait_until, wait_until_gone

from phrasemt.artefacts.syntax import Card, Kind, ModelFile
from phrasemt.errors import MismatchError
from phrasemt.files.lines import write_lines
from phrasemt.stages.syntax import AnnotateSentences
from phrasemt.syntax import annotate, store
from phrasemt.syntax.annotate import parse_sentences, tag_sentences
from phrasemt.syntax.annotations import BUCKETS, Annotation, Annotations, parser_tokens, sentence_key


def expected(tokens: Sequence[str]) -> Annotation:
    if "fails" in tokens:
        return Annotation(None, f"gave up after {len(tokens)} tokens")
    return Annotation(f"(S {' '.join(f'({token} {number})' for number, token in enumerate(tokens))})", None)


class Fake:
    """Annotates, and notes in a file what it was asked for: one process or several."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def annotate(self, sentences: Sequence[Sequence[str]]) -> list[Annotation]:
        with self.notes.open("a") as stream:
            stream.write("".join(f"{' '.join(tokens)}\n" for tokens in sentences))
        return list(map(expected, sentences))


class Folder:
    """A corpus, its annotator's card, and the stages on them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes = path / "notes"

    def card(self, name: str = "annotator", *, kind: Kind = "constituency", model: str = "0" * 64) -> Path:
        role = "constituency" if kind == "constituency" else "chunker"
        Card(
            kind=kind,
            origin="trained",
            language="en",
            stanza="1.15.0",
            files={role: ModelFile(path=self.path / "model.pt", sha256=model)},
            options={},
        ).write(self.path / name)
        return self.path / name

    def write(self, lines: list[str]) -> None:
        write_lines(self.path / "tokens", lines)

    def parse(
        self, *, job: int = 0, jobs: int = 1, cores: int = 1, cache: str = "cache", card: Path | None = None
    ) -> Path:
        output = self.path / f"annotations.{job}"
        parse_sentences(
            settings=AnnotateSentences(job=job, jobs=jobs),
            cores=cores,
            tokens=self.path / "tokens",
            annotator=card or self.card(),
            annotations=output,
            cache=self.path / cache,
        )
        return output

    def asked(self) -> list[str]:
        """The sentences that the annotator was given since the last call."""
        if not self.notes.exists():
            return []
        lines = self.notes.read_text().split("\n")[:-1]
        self.notes.unlink()
        return sorted(lines)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    module = SimpleNamespace(load_annotator=lambda card: Fake(tmp_path / "notes"))
    monkeypatch.setitem(sys.modules, "phrasemt.syntax.stanza.annotators", module)
    monkeypatch.setattr(annotate, "_processes", lambda cores: cores)
    monkeypatch.setattr(annotate, "_SENTENCES_PER_BLOCK", 100)
    return Folder(tmp_path)


def numbered(count: int) -> list[str]:
    """Different lines of tokens; one in ten fails."""
    return [f"a {'fails' if number % 10 == 3 else 'dog'} &amp; {number} ." for number in range(count)]


def sentences(lines: list[str]) -> list[list[str]]:
    return [tokens for line in dict.fromkeys(lines) if (tokens := parser_tokens(line))]


def check(outputs: list[Path], lines: list[str]) -> None:
    annotations = Annotations(outputs)
    wanted = sentences(lines)
    assert annotations.find([sentence_key(tokens) for tokens in wanted]) == list(map(expected, wanted))
    assert sum(pa.ipc.open_file(path).read_all().num_rows for path in outputs) == len(wanted)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [re.sub(r"\d+/s", "N/s", record.message) for record in caplog.records]
    caplog.clear()
    return found


def test_every_sentence_is_annotated_once(folder, caplog):
    caplog.set_level("INFO")
    lines = [*numbered(1000), *numbered(300), ""]
    folder.write(lines)
    output = folder.parse()
    check([output], lines)
    first = output.read_bytes()
    assert folder.asked() == sorted(map(" ".join, sentences(lines)))
    assert messages(caplog) == [
        "parse_sentences: 1,000 sentences, 0 of them found in the store",
        "parse_sentences: 1,000 annotated, N/s, 100 of them failed",
    ]
    assert folder.parse().read_bytes() == first
    assert folder.asked() == []
    assert messages(caplog) == ["parse_sentences: 1,000 sentences, 1,000 of them found in the store"]


def test_where_the_models_lie_does_not_show(folder):
    folder.write(numbered(20))
    first = folder.parse().read_bytes()
    (folder.path / "elsewhere").mkdir()
    card = Card.read(folder.card())
    card.write(folder.path / "elsewhere" / "card")
    assert folder.parse(card=folder.path / "elsewhere" / "card", cache="other").read_bytes() == first
    for path in [folder.path / "annotations.0", *(folder.path / "cache").rglob("*.*")]:
        assert path.is_dir() or str(folder.path).encode() not in path.read_bytes()


def test_a_grown_corpus(folder, caplog):
    folder.write(numbered(500))
    folder.parse()
    folder.asked()
    caplog.set_level("INFO")
    folder.write(numbered(520))
    output = folder.parse()
    check([output], numbered(520))
    assert folder.asked() == sorted(map(" ".join, sentences(numbered(520)[500:])))
    assert messages(caplog)[0] == "parse_sentences: 520 sentences, 500 of them found in the store"
    held_more = output.read_bytes()
    assert folder.parse(cache="fresh").read_bytes() == held_more


@pytest.mark.parametrize("order", [list(range(7)), [5, 1, 6, 0, 3, 2, 4]])
def test_jobs_share_the_work(folder, order):
    folder.write(numbered(700))
    outputs = {job: folder.parse(job=job, jobs=7, cache="jobs") for job in order}
    check([outputs[job] for job in sorted(outputs)], numbered(700))
    assert len(folder.asked()) == 700


def test_cores_do_not_show(folder):
    folder.write(numbered(900))
    one = folder.parse(cores=1, cache="one").read_bytes()
    assert folder.parse(cores=2, cache="two").read_bytes() == one
    assert folder.asked() == sorted([" ".join(tokens) for tokens in sentences(numbered(900))] * 2)


def test_an_annotator_of_another_kind(folder):
    folder.write(numbered(3))
    with pytest.raises(
        MismatchError, match=r"parse_sentences needs another kind of annotator .expected constituency, fou"
    ):
        folder.parse(card=folder.card(kind="chunks"))
    tag_sentences(
        settings=AnnotateSentences(job=0, jobs=1),
        cores=1,
        tokens=folder.path / "tokens",
        annotator=folder.card(kind="chunks"),
        annotations=folder.path / "tags",
        cache=folder.path / "cache",
    )
    check([folder.path / "tags"], numbered(3))


@pytest.mark.slow
def test_a_job_writes_few_files(folder, monkeypatch):
    folder.write(numbered(1000))
    folder.parse()
    of_one_addition = len(list((folder.path / "cache").rglob("*.arrow")))
    assert of_one_addition == BUCKETS
    monkeypatch.setattr(annotate, "_SENTENCES_PER_ADDITION", 100)
    monkeypatch.setattr(store, "_SMALL_FILES", 3)
    whole = folder.parse(cache="fresh").read_bytes()
    assert len(list((folder.path / "fresh").rglob("*.arrow"))) <= 3 * BUCKETS
    assert folder.parse().read_bytes() == whole


def test_a_job_that_fails_keeps_what_it_has_finished(folder, monkeypatch):
    class Failing(Fake):
        def annotate(self, sentences: Sequence[Sequence[str]]) -> list[Annotation]:
            if any("750" in tokens for tokens in sentences):
                raise KeyboardInterrupt
            return super().annotate(sentences)

    folder.write(numbered(800))
    module = SimpleNamespace(load_annotator=lambda card: Failing(folder.notes))
    with monkeypatch.context() as context:
        context.setitem(sys.modules, "phrasemt.syntax.stanza.annotators", module)
        with pytest.raises(KeyboardInterrupt):
            folder.parse()
    assert len(folder.asked()) == 700
    check([folder.parse()], numbered(800))
    assert len(folder.asked()) == 100


def test_a_killed_job_keeps_its_finished_blocks(folder):
    folder.write(numbered(800))
    folder.card()
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        f"sys.path[:] = {sys.path!r}\nimport test_annotate as t\n"
        "class Slow(t.Fake):\n"
        "    def annotate(self, sentences):\n        time.sleep(0.05)\n        return super().annotate(sentences)\n"
        f"folder = t.Folder(Path({str(folder.path)!r}))\n"
        "sys.modules['phrasemt.syntax.stanza.annotators'] = t.SimpleNamespace("
        "load_annotator=lambda card: Slow(folder.notes))\n"
        "t.annotate._SENTENCES_PER_BLOCK = t.annotate._SENTENCES_PER_ADDITION = 10\n"
        "t.annotate._processes = lambda cores: cores\n"
        "folder.parse(cores=2)\n"
    )
    job = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_until(lambda: len(list((folder.path / "cache").rglob("*.arrow"))) >= 20, job)
        workers = descendants(job)
    finally:
        job.kill()
        job.wait()
    wait_until_gone(workers)  # they end with the job
    before = folder.asked()
    check([folder.parse()], numbered(800))
    after = folder.asked()
    assert len(set(before)) < 800
    assert set(before) | set(after) == set(map(" ".join, sentences(numbered(800))))
    assert len(before) + len(after) <= 800 + 5 * 10  # what was under way: two blocks of each process, and one to add
