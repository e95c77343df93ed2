"""Parsing and chunking with Stanza's models, without its Pipeline: no network, no lost and no shifted sentence.

Sentences go to the models as they are, cut into tokens. They are sorted by length and taken in batches, which is what
makes Stanza fast; whether a sentence stands alone, with others or in another order changes no result. A sentence that
a model gives up on loses only itself, and becomes a recorded failure.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from phrasemt.errors import DataError, MismatchError
from phrasemt.files.parallel import batched
from phrasemt.symbols import CHUNK_TYPES
from phrasemt.syntax.annotator import ANNOTATION_VERSION, LONGEST, Card
from phrasemt.syntax.chunks.conll import TAGS
from phrasemt.syntax.store.annotations import Annotation

Tokens = Sequence[str]
Device = Literal["cpu", "cuda"]
Item = TypeVar("Item", bound=Sequence[object])

# Sentences at once: more need more memory, fewer make the models' fixed costs count.
_DOCUMENT = 2000
# Batches of the models, in sentences and in tokens with padding. The tokens bound the memory of long sentences.
_TAGGER_BATCH, _PARSER_BATCH, _CHUNKER_BATCH = 250, 50, 64
_TAGGER_TOKENS, _PARSER_TOKENS, _CHUNKER_TOKENS = 5000, 10_000, 10_000
# Tokens that the models cannot read, or have never seen, and what they see instead. Moses cuts hyphens out as @-@.
_SEEN_AS = {"": "_", "@-@": "-"}
# The sums of a sentence differ in their last digits with the batch that it is in (measured: by up to 2e-5), and so
# may a decision between scores that are close. A sentence with such a decision is annotated again by itself, which
# makes its annotation the same whatever its companions were. One in a thousand is.
_CLOSE = 1e-3
# Sentences that any model can annotate.
_HARMLESS = [["a", "."], ["."]]
# What errors of torch say that are about memory, or the libraries of the GPU, and have no type of their own.
_OF_THE_MACHINE = re.compile(r"memory|alloc|CUDA|cuDNN|cuBLAS", re.IGNORECASE)
_LABEL_CHARACTERS = str.maketrans({"(": "-LRB-", ")": "-RRB-", " ": "_", "\n": "_"})


class Annotator(Protocol):
    """What annotates sentences: a parser or a chunker."""

    def annotate(self, sentences: Sequence[Tokens]) -> list[Annotation]:
        """An annotation for each sentence, in order; a failure where there can be none. Never raises for a sentence."""


def load_annotator(card_path: Path) -> Annotator:
    """The parser or chunker of a card, its model files verified; on a GPU if torch sees one.

    Torch is set to one thread in this process: several slow these models down.

    Raises DamagedFileError when the card or a file is not what it was; MismatchError when the card is of another Stanza
    or the files do not fit together; DataError when a file is no such model.
    """
    card = Card.read(card_path)
    for what, described, present in (
        ("Stanza", card.stanza, importlib.metadata.version("stanza")),
        ("phrasemt's annotations", card.options.get("version"), ANNOTATION_VERSION),
    ):
        if described != present:
            raise MismatchError(
                f"the annotator was described under another version of {what}",
                where=card_path,
                expected=described,
                found=present,
                next_step="install that version, or delete the card and run again",
            )
    card.verify()
    files = {role: file.path for role, file in card.files.items()}
    made_of = ParserAnnotator if card.kind == "constituency" else ChunkerAnnotator
    return made_of(files, card.options["longest"])


# ------------------------------------------------------------------------------------------------------------- models


class _StanzaAnnotator(ABC):
    """What parser and chunker have in common: the order of sentences, and what happens when one fails."""

    name: str

    def __init__(self, longest: int) -> None:
        self._longest = longest

    def annotate(self, sentences: Sequence[Tokens]) -> list[Annotation]:
        """See `Annotator`."""
        return self._run(sentences, lambda part: self._annotate([_seen(tokens) for tokens in part]))

    @abstractmethod
    def _annotate(self, sentences: list[list[str]]) -> list[str]:
        """Texts of sentences that decrease in length. Raises when that fails for one of them."""

    def _run(self, sentences: Sequence[Item], annotate: Callable[[list[Item]], list[str]]) -> list[Annotation]:
        annotations = [Annotation(None, self._unfit(sentence)) for sentence in sentences]
        fit = [number for number, annotation in enumerate(annotations) if annotation.failure is None]
        for part in batched(fit, _DOCUMENT):
            part.sort(key=lambda number: len(sentences[number]), reverse=True)
            texts = self._surely([sentences[number] for number in part], annotate)
            for number, annotation in zip(part, texts, strict=True):
                annotations[number] = annotation
        return annotations

    def _unfit(self, sentence: Sequence[object]) -> str | None:
        if not sentence:
            return "no tokens"
        return f"longer than {self._longest} tokens" if len(sentence) > self._longest else None

    def _surely(self, sentences: list[Item], annotate: Callable[[list[Item]], list[str]]) -> list[Annotation]:
        """Annotations of all; a part with a sentence that fails is cut in halves until that sentence is alone."""
        try:
            return [Annotation(text, None) for text in annotate(sentences)]
        except Exception as error:
            if _is_of_the_machine(error):
                raise
            if len(sentences) == 1:
                return [Annotation(None, f"the {self.name} {self._reason(error)}")]
        half = len(sentences) // 2
        return self._surely(sentences[:half], annotate) + self._surely(sentences[half:], annotate)

    def _reason(self, error: Exception) -> str:
        """Why a sentence has no annotation. Raises the error when it is not the sentence's.

        Failures are stored for all studies to come, so nothing that ails the machine or the libraries may become one:
        then a sentence fails that was annotated when the models were loaded.
        """
        if isinstance(error, GaveUpError):
            return "gave up"
        try:
            self._annotate(_HARMLESS)
        except Exception:
            raise error from None
        return f"failed ({type(error).__name__})"


class GaveUpError(Exception):
    """The parser found no tree for a sentence, or a wrong one."""


class ParserAnnotator(_StanzaAnnotator):
    """A constituency parser, with a tagger if it reads parts of speech."""

    name = "parser"

    def __init__(self, files: Mapping[str, Path], longest: int = LONGEST, device: Device | None = None) -> None:
        super().__init__(longest)
        paths = {role: str(path) for role, path in files.items()}
        with _loading(files):
            device = prepare_stanza(device)
            from stanza.models.common.foundation_cache import FoundationCache
            from stanza.models.constituency.trainer import Trainer as ParserTrainer
            from stanza.models.pos.trainer import Trainer as TaggerTrainer

            cache = FoundationCache(local_files_only=True)
            # Stanza searches for a character model whose path is None, in the end on the network; "" is none at all.
            arguments = {f"charlm_{way}_file": paths.get(f"{way}_charlm", "") for way in ("forward", "backward")}
            self._model = ParserTrainer.load(
                paths["constituency"],
                args={**arguments, "wordvec_pretrain_file": paths["vectors"], "device": device},
                foundation_cache=cache,
            ).model
            self._model.eval()
            self._tagger = None
            if "tagger" in paths:
                vectors = cache.load_pretrain(paths["vectors"])
                trainer = TaggerTrainer(
                    pretrain=vectors, model_file=paths["tagger"], device=device, args=arguments, foundation_cache=cache
                )
                self._tagger = Tagger(trainer, vectors, "xpos" if self._model.uses_xpos() else "upos")
        self._check_tags(files)
        with _loading(files):
            self._annotate(_HARMLESS)

    def _check_tags(self, files: Mapping[str, Path]) -> None:
        """A parser that is given tags it does not know still makes trees, of no use."""
        if not self._model.args["tag_embedding_dim"]:
            return
        known = set(self._model.tags)
        given = self._tagger.tags if self._tagger else set()
        if given is not None and len(given & known) < len(known) / 2:
            raise MismatchError(
                "the parser reads parts of speech that the tagger does not give",
                where=files["constituency"],
                expected=f"tags such as {', '.join(sorted(known)[:8])}",
                found=f"tags such as {', '.join(sorted(given)[:8])}" if given else "no tagger",
                next_step="give the tagger that the parser was trained with",
            )

    def _annotate(self, sentences: list[list[str]]) -> list[str]:
        tags = self._tagger.tag(sentences) if self._tagger else [["X"] * len(tokens) for tokens in sentences]
        return self._parse([list(zip(*both, strict=True)) for both in zip(sentences, tags, strict=True)])

    def annotate_tagged(self, sentences: Sequence[Sequence[tuple[str, str]]]) -> list[Annotation]:
        """The same for sentences whose tokens have their parts of speech with them."""
        return self._run(sentences, self._parse)

    def _parse(self, sentences: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
        trees: list[Any] = []
        for size, numbers in batches_by_length(sentences, _PARSER_BATCH, _PARSER_TOKENS, refilled=True):
            trees += self._trees([sentences[number] for number in numbers], size)
        roots = self._model.root_labels
        return [
            short_text(tree, [token for token, _ in sentence], roots)
            for tree, sentence in zip(trees, sentences, strict=True)
        ]

    def _trees(self, sentences: Sequence[Sequence[tuple[str, str]]], size: int) -> list[Any]:
        """Stanza's trees. A sentence with a close decision, or without a tree, is parsed again by itself."""
        import torch

        model = self._model
        close: set[int] = set()

        def states(size: int, waiting: Iterator[int]) -> list[Any]:
            numbers = list(itertools.islice(waiting, size))
            if not numbers:
                return []
            new = model.initial_state_from_words([sentences[number] for number in numbers])
            # Stanza loses count of its states when it gives one up. The field for the right tree is free: it says which
            # sentence this is.
            return [state._replace(gold_tree=number) for state, number in zip(new, numbers, strict=True)]

        def choose(states: list[Any]) -> tuple[Any, Any, Any]:
            scores_SD, transitions, chosen_S = model.predict(states)  # S states, D transitions to decide for
            rivals_S = ((scores_SD - chosen_S.unsqueeze(1)).abs_() < _CLOSE).sum(1) > 1
            if rivals_S.any():
                close.update(states[index].gold_tree for index in rivals_S.nonzero().flatten().tolist())
            return scores_SD, transitions, chosen_S

        with torch.no_grad():
            results = model.parse_sentences(iter(range(len(sentences))), states, size, choose)
        trees = {result.gold: result.predictions[0].tree for result in results}
        if len(sentences) == 1 and not trees:
            raise GaveUpError
        for number, sentence in enumerate(sentences):
            if len(sentences) > 1 and (number in close or number not in trees):
                (trees[number],) = self._trees([sentence], 1)
        return [trees[number] for number in range(len(sentences))]


class Tagger:
    """A part-of-speech tagger; `column` says which of its tags: xpos or upos. tags: all of them, None if not known."""

    def __init__(self, trainer: Any, vectors: Any, column: str) -> None:
        self._trainer, self._vectors = trainer, vectors
        model, vocabulary = trainer.model, trainer.vocab[column]
        self._column = [tags.name for tags in model.tag_columns if tags.output].index(column)
        whole = type(vocabulary).__name__ == "WordVocab"  # others compose a tag of several parts
        self.tags = set(vocabulary._unit2id) if whole else None
        heads = [model.upos_clf] if column == "upos" or not model.share_hid else []  # xpos may look at upos
        if column == "xpos":
            head = model.tag_clf["xpos"]
            heads += [head] if whole else list(head)
        self._close: list[Any] = []  # of each head, which rows of its last output are close decisions
        for head in heads:
            head.register_forward_hook(lambda head, inputs, scores_ND: self._close.append(_close_rows(scores_ND)))

    def tag(self, sentences: list[list[str]]) -> list[list[str]]:
        """The tags of each token, of sentences that decrease in length. One with a close decision is tagged again."""
        tags, close = self._tag(sentences, together=True)
        for number in close:
            ((tags[number],), _) = self._tag([sentences[number]], together=False)
        return tags

    def _tag(self, sentences: list[list[str]], *, together: bool) -> tuple[list[list[str]], list[int]]:
        """The tags, and the numbers of the sentences with close decisions; none if a sentence is not with others."""
        import torch
        from stanza.models.pos.data import Dataset
        from torch.nn.utils.rnn import pack_padded_sequence

        trainer = self._trainer
        data = Dataset(_Document(sentences), trainer.args, self._vectors, vocab=trainer.vocab, evaluation=True)
        tags: list[list[str]] = [[]] * len(sentences)
        close: set[int] = set()
        for batch in data.to_length_limited_loader(_TAGGER_BATCH, _TAGGER_TOKENS):
            self._close.clear()
            with torch.no_grad():
                words = trainer.predict(batch)
            for number, sentence in zip(batch.idx, words, strict=True):
                tags[number] = [word[self._column] for word in sentence]
            if together and (rows_N := torch.stack(self._close).any(0)).any():
                # The rows are the tokens of all sentences, first ones first, as torch packs them.
                numbers_B = torch.tensor(batch.idx)[torch.tensor(batch.orig_idx)]
                numbers_BT = numbers_B.unsqueeze(1).expand(-1, int(max(batch.lens)))
                numbers_N = pack_padded_sequence(numbers_BT, batch.lens, batch_first=True).data
                close.update(numbers_N[rows_N.cpu()].tolist())
        return tags, sorted(close)


def _close_rows(scores_ND: Any) -> Any:
    """Which of N decisions between D possibilities could turn out otherwise if the scores differ a little: bool [N]."""
    best_N2 = scores_ND.reshape(-1, scores_ND.shape[-1]).topk(2).values
    return best_N2[:, 0] - best_N2[:, 1] < _CLOSE


class ChunkerAnnotator(_StanzaAnnotator):
    """A chunk tagger: Stanza's tagger of names, trained on chunks."""

    name = "chunker"

    def __init__(self, files: Mapping[str, Path], longest: int = LONGEST, device: Device | None = None) -> None:
        super().__init__(longest)
        with _loading(files):
            device = prepare_stanza(device)
            from stanza.models.common.foundation_cache import FoundationCache
            from stanza.models.ner.trainer import Trainer

            cache = FoundationCache(local_files_only=True)
            vectors = cache.load_pretrain(str(files["vectors"]))
            path = str(files["chunker"])
            self._trainer = Trainer(model_file=path, pretrain=vectors, device=device, foundation_cache=cache)
            self._trainer.model.register_forward_hook(self._remember)
        self._check_tags(files)
        with _loading(files):
            self._annotate(_HARMLESS)

    def _check_tags(self, files: Mapping[str, Path]) -> None:
        """A tagger of names, or of other chunks, gives tags that mean nothing to what reads them."""
        tags = self._trainer.vocab["tag"].items(self._trainer.args["predict_tagset"])
        if unknown := {bio for tag in tags for bio in bio_tags([tag])} - TAGS:
            raise MismatchError(
                "the chunker gives tags of other types than those of chunks",
                where=files["chunker"],
                expected=", ".join(CHUNK_TYPES),
                found=", ".join(sorted(tag.partition("-")[2] for tag in unknown)[:8]),
                next_step="give a chunker that was trained on the chunks of CoNLL-2000",
            )

    def _remember(self, model: Any, inputs: Any, outputs: Any) -> None:
        """Keeps the scores [B, T, K] of K tags at T positions and those of tags after tags [K, K]."""
        _, scores, transitions = outputs
        tagset = self._trainer.args["predict_tagset"]
        self._scores = scores[tagset], transitions[tagset]

    def _annotate(self, sentences: list[list[str]]) -> list[str]:
        texts: list[str] = []
        for _, part in batches_by_length(sentences, _CHUNKER_BATCH, _CHUNKER_TOKENS):
            tags, margins_B = self._tags([sentences[number] for number in part])
            for place in (margins_B < _CLOSE).nonzero().flatten().tolist():
                (tags[place],), _ = self._tags([sentences[part[place]]])
            texts += [" ".join(bio_tags(sentence)) for sentence in tags]
        return texts

    def _tags(self, sentences: list[list[str]]) -> tuple[list[list[str]], Any]:
        """Tags of a batch, and by how much each sentence's are better than any others, float [B]."""
        import torch
        from stanza.models.ner.data import DataLoader

        trainer = self._trainer
        data = DataLoader(
            _Document(sentences),
            len(sentences),
            trainer.args,
            vocab=trainer.vocab,
            evaluation=True,
            preprocess_tags=False,
        )
        with torch.no_grad():
            tags: list[list[str]] = trainer.predict(data[0])
            order, lengths = data[0][5], data[0][8]  # Stanza sorts the batch; the tags are back in order
            margins_B = torch.empty(len(sentences))
            margins_B[torch.tensor(order)] = _margins(*self._scores, torch.tensor(lengths)).cpu()
        return tags, margins_B


def _margins(scores_BTK: Any, transitions_KK: Any, lengths_B: Any) -> Any:
    """By how much the best sequence of tags is better than any other one, float [B].

    That is the least difference, over positions, between the two best tags, each with the best sequence through it.
    """
    import torch

    positions = scores_BTK.shape[1]
    lengths_B1 = lengths_B.to(scores_BTK.device).unsqueeze(1)
    best_up_to = [scores_BTK[:, 0]]  # the sums of the best sequences that end with each tag, [B, K]
    for t in range(1, positions):
        best_up_to.append(scores_BTK[:, t] + (best_up_to[-1].unsqueeze(2) + transitions_KK).amax(1))
    after_BK = torch.zeros_like(scores_BTK[:, 0])  # of those that come after each tag; nothing comes after the last one
    margins_B = torch.full_like(after_BK[:, 0], torch.inf)
    for t in reversed(range(positions)):
        best_B2 = (best_up_to[t] + after_BK).topk(2).values
        margins_B = torch.where(lengths_B1[:, 0] > t, margins_B.minimum(best_B2[:, 0] - best_B2[:, 1]), margins_B)
        before_BK = (transitions_KK + (scores_BTK[:, t] + after_BK).unsqueeze(1)).amax(2)
        after_BK = torch.where(lengths_B1 > t, before_BK, after_BK)
    return margins_B


def load_tagger(tagger: Path, vectors: Path, device: Device | None = None) -> Tagger:
    """A tagger for XPOS tags by itself. Raises DataError when the files are not such models."""
    with _loading({"tagger": tagger, "vectors": vectors}):
        device = prepare_stanza(device)
        from stanza.models.common.pretrain import Pretrain
        from stanza.models.pos.trainer import Trainer

        pretrain = Pretrain(str(vectors))
        return Tagger(Trainer(pretrain=pretrain, model_file=str(tagger), device=device), pretrain, "xpos")


def _seen(tokens: Tokens) -> list[str]:
    return [_SEEN_AS.get(token, token) for token in tokens]


class _Document:
    """As much of Stanza's Document as its readers of data ask for: the tokens, and no tags."""

    def __init__(self, sentences: Sequence[Tokens]) -> None:
        self._sentences = sentences

    def get(self, fields: Sequence[str], as_sentences: bool, from_token: bool = False) -> list[list[list[str | None]]]:
        tags: list[str | None] = [None] * (len(fields) - 1)
        return [[[token, *tags] for token in sentence] for sentence in self._sentences]


# ---------------------------------------------------------------------------------------------------------- functions


def prepare_stanza(device: Device | None = None) -> Device:
    """Imports Stanza, silent and offline, and sets torch up for it. Device: that one, or else a GPU if there is any."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import stanza  # noqa: F401
    import torch

    logging.getLogger("stanza").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # ten bits of mantissa would make many more decisions close
    return device or ("cuda" if torch.cuda.is_available() else "cpu")


@contextlib.contextmanager
def _loading(files: Mapping[str, Path]) -> Iterator[None]:
    """What Stanza raises for files that are no models, or not of one another, becomes a DataError."""
    try:
        yield
    except Exception as error:
        if _is_of_the_machine(error):
            raise
        raise DataError(
            "Stanza cannot use the model files",
            where=", ".join(map(str, files.values())),
            found=f"{type(error).__name__}: {str(error)[:300]}",
            next_step="check that they are of this Stanza, and all that the models were trained with is there",
        ) from error


def _is_of_the_machine(error: Exception) -> bool:
    """Errors that say nothing about the sentence: with more memory or another device it may be annotated."""
    import torch

    if isinstance(error, (MemoryError, OSError, ImportError, torch.OutOfMemoryError, torch.AcceleratorError)):
        return True
    return isinstance(error, RuntimeError) and bool(_OF_THE_MACHINE.search(str(error)))


def batches_by_length(
    sentences: Sequence[Sequence[object]], most: int, most_tokens: int, *, refilled: bool = False
) -> Iterator[tuple[int, range]]:
    """Cuts sentences of decreasing length into batches: at most `most` of them, at most `most_tokens` with padding.

    Gives the size of the batch and the numbers of its sentences. With `refilled` the model itself fills a batch up
    when a sentence is done: then the numbers are of all sentences for which the size of the batch is the same.
    """
    start = 0
    while start < len(sentences):
        size = min(most, max(1, most_tokens // len(sentences[start])))
        end = start + size
        while refilled and end < len(sentences) and min(most, max(1, most_tokens // len(sentences[end]))) == size:
            end += 1
        yield size, range(start, min(end, len(sentences)))
        start = end


def short_text(tree: Any, tokens: Tokens, roots: Sequence[str]) -> str:
    """A tree of Stanza as `phrasemt.syntax.trees.tree_text` writes trees.

    The root goes, except above a single token. Raises GaveUpError unless leaf i is token i.
    """
    children = tree.children
    if tree.label in roots and len(children) == 1 and not children[0].is_preterminal():
        tree = children[0]
    pieces: list[str] = []
    leaf = 0
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node is None:
            pieces[-1] += ")"
        elif node.is_preterminal():
            if leaf == len(tokens) or node.children[0].label != tokens[leaf]:
                raise GaveUpError
            pieces.append(f"({_label(node.label)} {leaf})")
            leaf += 1
        else:
            pieces.append("(" + ("ROOT" if node.label in roots else _label(node.label)))
            waiting.append(None)
            waiting += reversed(node.children)
    if leaf != len(tokens):
        raise GaveUpError
    return " ".join(pieces)


def _label(label: str | None) -> str:
    return label.translate(_LABEL_CHARACTERS) if label else "X"


def bio_tags(tags: Sequence[str]) -> list[str]:
    """Tags BIOES, or BIO, as BIO. What no chunk can be made of is read as conlleval does: a new chunk begins.

    That is at B and S, after E, S and O, and wherever the type changes.
    """
    converted = []
    before, type_before = "O", ""
    for tag in tags:
        prefix, _, type_ = tag.partition("-")
        if prefix not in {"B", "I", "E", "S"} or not type_:
            prefix, type_ = "O", ""
            converted.append("O")
        elif prefix in "BS" or before in "ESO" or type_ != type_before:
            converted.append(f"B-{type_}")
        else:
            converted.append(f"I-{type_}")
        before, type_before = prefix, type_
    return converted
