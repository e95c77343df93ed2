"""The stage `partition_corpus`: a corpus cut into train, dev and test so that no two splits share a sentence.

In a corpus like Tatoeba a sentence has many translations, so a split by lines would test on sentences of train. Pairs
that share a source or a target sentence therefore stay together: the pairs are the edges of a bipartite graph, and the
stage draws connected components of this graph. Sentences that differ only in case, white space and composed letters
count as equal.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasemt.corpus.normalise import composed, normalise_spaces
from phrasemt.errors import DataError
from phrasemt.files.lines import read_parallel, write_atomic
from phrasemt.stages.corpus import PartitionCorpus

log = logging.getLogger("phrasemt.corpus.partition")

SPLITS = ("train", "dev", "test")
TRAIN, DEV, TEST = range(3)
# Largest component in dev and test, as a share of the pairs of the split. One large component could fill a split.
LARGEST_SHARE = 0.01


def partition_corpus(
    *,
    settings: PartitionCorpus,
    cores: int,
    source: list[Path],
    target: list[Path],
    train_source: Path,
    train_target: Path,
    dev_source: Path,
    dev_target: Path,
    test_source: Path,
    test_target: Path,
) -> None:
    """Write `settings.test` pairs to test, `settings.dev` pairs to dev, and the other pairs to train.

    source, target: texts line by line, read one after the other. Lines are copied unchanged, in this order.
    Raises DataError for an empty text, sides with unequal
    numbers of lines, and sizes that cannot be reached.
    """
    components = find_components(source, target)
    split_of_component = draw_splits(components, dev=settings.dev, test=settings.test, seed=settings.seed)
    paths = ((train_source, train_target), (dev_source, dev_target), (test_source, test_target))
    counts = [0, 0, 0]
    with contextlib.ExitStack() as stack:
        streams = [[stack.enter_context(write_atomic(path)) for path in sides] for sides in paths]
        for component, pair in zip(components.of_row, _pairs(source, target), strict=True):
            split = split_of_component[component]
            counts[split] += 1
            for stream, line in zip(streams[split], pair, strict=True):
                stream.write(line.encode("utf-8") + b"\n")
    log.info(
        "partition_corpus: %d pairs in %d components, the largest of %d pairs; %s",
        len(components.of_row),
        len(components.sizes),
        max(components.sizes),
        ", ".join(f"{name} {count}" for name, count in zip(SPLITS, counts, strict=True)),
    )


def _pairs(source: Sequence[Path], target: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    for sides in zip(source, target, strict=True):
        yield from read_parallel(*sides)


@dataclass(frozen=True)
class Components:
    """The connected components of a corpus, numbered from 0 in the order of their first pairs."""

    of_row: array[int]  # component of each pair
    sizes: array[int]  # number of pairs of each component
    keys: list[bytes]  # digest of the first source sentence of each component; all keys differ
    has_empty_side: bytearray  # 1 for a component that contains an empty side


def sentence_digest(line: str) -> bytes:
    """16 bytes, equal for sentences that count as equal."""
    return hashlib.blake2b(composed(normalise_spaces(line)).casefold().encode(), digest_size=16).digest()


def find_components(source: Sequence[Path], target: Sequence[Path]) -> Components:
    """The connected components of parallel texts. Memory: a digest and a number for each sentence."""
    numbers: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})  # for each side: sentence -> number from 0
    source_of_row, target_of_row = array("i"), array("i")
    for source_line, target_line in _pairs(source, target):
        for line, number, of_row in (
            (source_line, numbers[0], source_of_row),
            (target_line, numbers[1], target_of_row),
        ):
            of_row.append(number.setdefault(sentence_digest(line), len(number)))
    if not source_of_row:
        where, next_step = ", ".join(map(str, [*source, *target])), "check the paths in the study"
        raise DataError(
            "the text is empty", where=where, expected="at least one line", found="0 lines", next_step=next_step
        )
    targets_from = len(numbers[0])  # nodes of the graph: the source sentences, then the target sentences
    parent = array("i", range(targets_from + len(numbers[1])))
    for source_number, target_number in zip(source_of_row, target_of_row, strict=True):
        _unite(parent, source_number, targets_from + target_number)
    components = Components(array("i"), array("i"), [], bytearray())
    component_of_root: dict[int, int] = {}
    digests, no_text = list(numbers[0]), sentence_digest("")
    empty_source, empty_target = (number.get(no_text) for number in numbers)
    for source_number, target_number in zip(source_of_row, target_of_row, strict=True):
        component = component_of_root.setdefault(_root(parent, source_number), len(component_of_root))
        if component == len(components.sizes):
            components.sizes.append(0)
            components.keys.append(digests[source_number])
            components.has_empty_side.append(False)
        components.of_row.append(component)
        components.sizes[component] += 1
        if source_number == empty_source or target_number == empty_target:
            components.has_empty_side[component] = True
    return components


def _root(parent: array[int], node: int) -> int:
    """The root of the set of `node`, found with path halving (union-find)."""
    while parent[node] != node:
        parent[node] = node = parent[parent[node]]
    return node


def _unite(parent: array[int], first: int, second: int) -> None:
    first, second = _root(parent, first), _root(parent, second)
    # The smaller number becomes the root, so that the result does not depend on the order of the pairs.
    parent[max(first, second)] = min(first, second)


def draw_splits(components: Components, *, dev: int, test: int, seed: int) -> bytearray:
    """The split of each component.

    Seed and content give the components a random order. Test first and then dev take components in this order until
    they have their numbers of pairs. They skip components that are larger than LARGEST_SHARE of the split (single pairs
    always fit) or than the missing number of pairs, and components with an empty side, which stay in train and can be
    filtered there. Raises DataError if a size cannot be reached.
    """
    key = seed.to_bytes(8, "big")
    order = sorted(
        range(len(components.sizes)),
        key=lambda component: hashlib.blake2b(components.keys[component], key=key).digest(),
    )
    splits = bytearray(len(components.sizes))
    for split, wanted in ((TEST, test), (DEV, dev)):
        missing, largest = wanted, max(1, int(wanted * LARGEST_SHARE))
        for component in order:
            size = components.sizes[component]
            if (
                splits[component] == TRAIN
                and size <= min(missing, largest)
                and not components.has_empty_side[component]
            ):
                splits[component] = split
                missing -= size
                if not missing:
                    break
        if missing:
            raise DataError(
                "too few pairs share no sentence with the rest of the corpus",
                where=f"partition, {SPLITS[split]}",
                expected=f"{wanted} pairs in groups of at most {largest} that share a sentence",
                found=f"{wanted - missing} such pairs among {len(components.of_row)}",
                next_step="ask for fewer pairs in the study, or add text",
            )
    if TRAIN not in splits:
        raise DataError(
            "no pairs are left for train",
            where="partition",
            expected=f"more than {dev + test} pairs",
            found=f"{len(components.of_row)} pairs",
            next_step="ask for fewer pairs in the study, or add text",
        )
    return splits
