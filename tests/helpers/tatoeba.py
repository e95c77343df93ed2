"""Studies of Chinese and English at the size micro with sentences of Tatoeba in place of the generated corpus."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from phrasemt.files.lines import write_lines
from phrasemt.study.datasets import Dataset
from phrasemt.study.schema import Study

_CHUNKER = {
    **{part: [{"corpus": "conll2000", "part": part}] for part in ("train", "test")},
    **{"text": [], "sentences": 200, "vectors": 0, "hidden": 16, "updates": 20},
}


def is_chinese_english(study: Study) -> bool:
    return all(set(dataset.languages) == {"en", "zh"} for dataset in study.datasets.values())


def with_tatoeba(values: dict[str, Any], study: Study, corpora: Path, folder: Path) -> dict[str, Any]:
    """The values of a study at the size micro, with data sets of Tatoeba and a chunker of CoNLL-2000.

    study: at its own size. corpora: the folder of both corpora. The texts are written to folder/data/tatoeba-zh-en.
    """
    with zipfile.ZipFile(corpora / "tatoeba-zh-en" / "cmn-eng.zip") as archive:
        lines = archive.read("cmn.txt").decode("utf-8").splitlines()
    pairs = [tuple(line.split("\t")[:2]) for line in lines]
    datasets = {
        name: {"subwords": values["datasets"][name]["subwords"], **_dataset(dataset, pairs, folder)}
        for name, dataset in study.datasets.items()
    }
    chunkers = {name: {"language": "en", "train": _CHUNKER} for name in study.chunkers}
    return {**values, "datasets": datasets, "chunkers": chunkers}


def _dataset(dataset: Dataset, pairs: list[tuple[str, ...]], folder: Path) -> dict[str, Any]:
    """A test set has sources with two translations or more, which stand for its references by turns.

    Train has no sentence of dev and of the test sets. pairs: English, Chinese.
    """
    translations: dict[str, list[str]] = {}
    for english, chinese in pairs:
        source, target = (chinese, english) if dataset.source_language == "zh" else (english, chinese)
        translations.setdefault(source, []).append(target)
    several = [source for source, targets in translations.items() if len(targets) > 1]
    parts = {name: several[number :: len(dataset.test_sets)][:40] for number, name in enumerate(dataset.test_sets)}
    held_out = {target for source in several for target in translations[source]}
    others = [source for source, (target, *more) in translations.items() if not more and target not in held_out]
    step = len(others) // 620
    parts |= {"dev": others[::step][:20], "train": others[1::step][:600]}
    (folder / "data" / "tatoeba-zh-en").mkdir(parents=True, exist_ok=True)
    texts: dict[str, list[dict[str, Any]]] = {}
    for name, sources in parts.items():
        number = len(dataset.references(name)) if name in dataset.test_sets else 1
        path = f"data/tatoeba-zh-en/{name}"
        source_file = f"{path}.{dataset.source_language}"
        write_lines(folder / source_file, sources)
        files = [f"{path}.{dataset.target_language}.{reference}" for reference in range(number)]
        for reference, file in enumerate(files):
            targets = (translations[source][reference % len(translations[source])] for source in sources)
            write_lines(folder / file, targets)
        references = {"references": files[1:]} if number > 1 else {}
        texts[name] = [{"source": source_file, "target": files[0], **references}]
    chunks = dataset.target_chunks
    return {
        "source_language": dataset.source_language,
        "target_language": dataset.target_language,
        "splits": {"train": texts.pop("train"), "dev": texts.pop("dev"), "test": texts},
        "overlap": "allowed",  # sentences of two or three words
        **({"target_chunks": chunks.model_dump(exclude_none=True)} if chunks else {}),
    }
