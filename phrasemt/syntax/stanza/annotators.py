"""Tagger, parser and chunker: Stanza's models without Stanza's Pipeline, and the annotator of a card.

The Pipeline may use the network, and it may lose or shift sentences on which a model fails.
"""

from __future__ import annotations

import importlib.metadata
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from phrasemt.artefacts.syntax import ANNOTATION_VERSION, Card
from phrasemt.errors import MismatchError, check_equal
from phrasemt.symbols import CHUNK_TYPES
from phrasemt.syntax.conll import TAGS
from phrasemt.syntax.given_annotators import TreeAnnotator
from phrasemt.syntax.stanza.runtime import (
    Device,
    GaveUpError,
    StanzaAnnotator,
    TokenDocument,
    Tokens,
    batches_by_length,
    close_sequences,
    close_states,
    close_tokens,
    loading,
    prepare_stanza,
)
from phrasemt.syntax.trees import Tree, tree_text, words

# Batch in sentences and in padded tokens; the tokens bound the memory for long sentences.
_TAGGED_TOGETHER, _TAGGED_TOKENS = 250, 5000


class StanzaTagger:
    """A tagger for one column of tags, `xpos` or `upos`. tags: its tag set; None if the model composes its tags."""

    def __init__(self, trainer: Any, vectors: Any, column: str) -> None:
        """trainer, vectors: Stanza's objects of the model and of the word vectors."""
        self._trainer, self._vectors = trainer, vectors
        model, vocabulary = trainer.model, trainer.vocab[column]
        self._column = [tags.name for tags in model.tag_columns if tags.output].index(column)
        simple = type(vocabulary).__name__ == "WordVocab"  # other vocabularies compose a tag of several parts
        self.tags = set(vocabulary._unit2id) if simple else None
        heads = [model.upos_clf] if column == "upos" or not model.share_hid else []  # the xpos head may read upos
        if column == "xpos":
            head = model.tag_clf["xpos"]
            heads += [head] if simple else list(head)
        self._close: list[Any] = []  # for each head: which rows of its last output are close decisions
        for head in heads:
            head.register_forward_hook(self._mark_close_rows)

    def _mark_close_rows(self, head: Any, inputs: Any, scores: Any) -> None:
        self._close.append(close_tokens(scores.reshape(-1, scores.shape[-1])))

    def tag(self, sentences: list[list[str]]) -> list[list[str]]:
        """The tags of each sentence. sentences: tokens, in decreasing length.

        A sentence with a close decision is tagged again, alone.
        """
        tags, close = self._tag(sentences, together=True)
        for number in close:
            ((tags[number],), _) = self._tag([sentences[number]], together=False)
        return tags

    def _tag(self, sentences: list[list[str]], *, together: bool) -> tuple[list[list[str]], list[int]]:
        """The tags, and the numbers of the sentences with close decisions; no numbers unless `together`."""
        import torch
        from stanza.models.pos.data import Dataset
        from torch.nn.utils.rnn import pack_padded_sequence

        trainer = self._trainer
        data = Dataset(TokenDocument(sentences), trainer.args, self._vectors, vocab=trainer.vocab, evaluation=True)
        tags: list[list[str]] = [[]] * len(sentences)
        close: set[int] = set()
        for batch in data.to_length_limited_loader(_TAGGED_TOGETHER, _TAGGED_TOKENS):
            self._close.clear()
            with torch.no_grad():
                words = trainer.predict(batch)
            for number, sentence in zip(batch.idx, words, strict=True):
                tags[number] = [word[self._column] for word in sentence]
            if together and (rows_N := torch.stack(self._close).any(0)).any():
                # The rows are the tokens of all sentences in the order of a packed sequence of torch.
                numbers_B = torch.tensor(batch.idx)[torch.tensor(batch.orig_idx)]
                numbers_BT = numbers_B.unsqueeze(1).expand(-1, int(max(batch.lens)))
                numbers_N = pack_padded_sequence(numbers_BT, batch.lens, batch_first=True).data
                close.update(numbers_N[rows_N.cpu()].tolist())
        return tags, sorted(close)


def load_tagger(tagger: Path, vectors: Path, device: Device | None = None) -> StanzaTagger:
    """A tagger for XPOS tags from its model files. Raises DataError if Stanza cannot use the files."""
    with loading({"tagger": tagger, "vectors": vectors}):
        device = prepare_stanza(device)
        from stanza.models.common.pretrain import Pretrain
        from stanza.models.pos.trainer import Trainer

        pretrain = Pretrain(str(vectors))
        return StanzaTagger(Trainer(pretrain=pretrain, model_file=str(tagger), device=device), pretrain, "xpos")


_PARSED_TOGETHER, _PARSED_TOKENS = 50, 10_000
_LABEL_CHARACTERS = str.maketrans({"(": "-LRB-", ")": "-RRB-", " ": "_", "\n": "_"})


class ParserAnnotator(StanzaAnnotator):
    """A constituency parser, with a tagger if the parser reads parts of speech."""

    name = "parser"

    def _load(self, paths: Mapping[str, str], device: Device) -> None:
        from stanza.models.common.foundation_cache import FoundationCache
        from stanza.models.constituency.trainer import Trainer as ParserTrainer
        from stanza.models.pos.trainer import Trainer as TaggerTrainer

        cache = FoundationCache(local_files_only=True)
        # With None for a path, Stanza searches for a character model, at last on the network; "" means no model.
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
            self._tagger = StanzaTagger(trainer, vectors, "xpos" if self._model.uses_xpos() else "upos")

    def _check_tags(self, files: Mapping[str, Path]) -> None:
        """Refuse a tagger with another tag set: with unknown tags the parser still makes trees, but useless ones."""
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
        tagged = [list(zip(*both, strict=True)) for both in zip(sentences, tags, strict=True)]
        trees: list[Any] = []
        for size, numbers in batches_by_length(sentences, _PARSED_TOGETHER, _PARSED_TOKENS, refilled=True):
            trees += self._trees([tagged[number] for number in numbers], size)
        roots = self._model.root_labels
        return [short_text(tree, tokens, roots) for tree, tokens in zip(trees, sentences, strict=True)]

    def _trees(self, sentences: Sequence[Sequence[tuple[str, str]]], size: int) -> list[Any]:
        """Stanza's trees. A sentence with a close decision, or without a tree, is parsed again, alone."""
        import torch

        model = self._model
        close: set[int] = set()

        def states(size: int, waiting: Iterator[int]) -> list[Any]:
            numbers = list(itertools.islice(waiting, size))
            if not numbers:
                return []
            new = model.initial_state_from_words([sentences[number] for number in numbers])
            # When Stanza gives a state up, its states no longer correspond to the sentences. The unused field for the
            # gold tree therefore contains the number of the sentence.
            return [state._replace(gold_tree=number) for state, number in zip(new, numbers, strict=True)]

        def choose(states: list[Any]) -> tuple[Any, Any, Any]:
            scores_SD, transitions, chosen_S = model.predict(states)  # S states, D transitions to choose from
            close_S = close_states(scores_SD, chosen_S)
            if close_S.any():
                close.update(states[index].gold_tree for index in close_S.nonzero().flatten().tolist())
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


def tree_of_stanza(tree: Any, roots: Sequence[str]) -> Tree:
    """A tree of Stanza as ours, without its root unless that has a single token. roots: labels of root nodes."""
    if tree.label in roots and len(tree.children) == 1 and not tree.children[0].is_preterminal():
        tree = tree.children[0]
    made: list[Tree] = []
    waiting = [(tree, False)]  # with whether the children are made. No recursion, as trees may be deep.
    while waiting:
        node, complete = waiting.pop()
        if node.is_preterminal():
            made.append(Tree(_label(node.label), word=node.children[0].label))
        elif complete:
            children = tuple(made[-len(node.children) :])
            made[-len(node.children) :] = [Tree("ROOT" if node.label in roots else _label(node.label), children)]
        else:
            waiting.append((node, True))
            waiting += [(child, False) for child in reversed(node.children)]
    return made[0]


def short_text(tree: Any, tokens: Tokens, roots: Sequence[str]) -> str:
    """The short text of a tree of Stanza. Raises GaveUpError unless its words are the tokens."""
    ours = tree_of_stanza(tree, roots)
    if words(ours) != list(tokens):
        raise GaveUpError
    return tree_text(ours)


def _label(label: str | None) -> str:
    return label.translate(_LABEL_CHARACTERS) if label else "X"


_CHUNKED_TOGETHER, _CHUNKED_TOKENS = 64, 10_000


class ChunkerAnnotator(StanzaAnnotator):
    """A chunk tagger."""

    name = "chunker"

    def _load(self, paths: Mapping[str, str], device: Device) -> None:
        from stanza.models.common.foundation_cache import FoundationCache
        from stanza.models.ner.trainer import Trainer

        cache = FoundationCache(local_files_only=True)
        vectors = cache.load_pretrain(paths["vectors"])
        self._trainer = Trainer(model_file=paths["chunker"], pretrain=vectors, device=device, foundation_cache=cache)
        self._trainer.model.register_forward_hook(self._remember_scores)

    def _check_tags(self, files: Mapping[str, Path]) -> None:
        """Refuse a tagger of named entities, or of other chunk types."""
        tags = self._trainer.vocab["tag"].items(self._trainer.args["predict_tagset"])
        if unknown := {bio for tag in tags for bio in bio_tags([tag])} - TAGS:
            raise MismatchError(
                "the chunker gives tags that are not chunk types",
                where=files["chunker"],
                expected=", ".join(CHUNK_TYPES),
                found=", ".join(sorted(tag.partition("-")[2] for tag in unknown)[:8]),
                next_step="give a chunker that was trained on the chunks of CoNLL-2000",
            )

    def _remember_scores(self, model: Any, inputs: Any, outputs: Any) -> None:
        """Keep the scores [B, T, K] of K tags at T positions, and the scores [K, K] of pairs of neighbouring tags."""
        _, scores, transitions = outputs
        tagset = self._trainer.args["predict_tagset"]
        self._scores = scores[tagset], transitions[tagset]

    def _annotate(self, sentences: list[list[str]]) -> list[str]:
        texts: list[str] = []
        for _, part in batches_by_length(sentences, _CHUNKED_TOGETHER, _CHUNKED_TOKENS):
            tags, close_B = self._tags([sentences[number] for number in part])
            for place in close_B.nonzero().flatten().tolist():
                (tags[place],), _ = self._tags([sentences[part[place]]])
            texts += [" ".join(bio_tags(sentence)) for sentence in tags]
        return texts

    def _tags(self, sentences: list[list[str]]) -> tuple[list[list[str]], Any]:
        """The tags of B sentences, and which sentences have a close decision, bool [B]."""
        import torch
        from stanza.models.ner.data import DataLoader

        trainer = self._trainer
        data = DataLoader(
            TokenDocument(sentences),
            len(sentences),
            trainer.args,
            vocab=trainer.vocab,
            evaluation=True,
            preprocess_tags=False,
        )
        with torch.no_grad():
            tags: list[list[str]] = trainer.predict(data[0])
            order, lengths = data[0][5], data[0][8]  # Stanza sorts the batch, and puts the tags back in order
            close_B = torch.empty(len(sentences), dtype=torch.bool)
            close_B[torch.tensor(order)] = close_sequences(*self._scores, torch.tensor(lengths)).cpu()
        return tags, close_B


def bio_tags(tags: Sequence[str]) -> list[str]:
    """BIOES or BIO tags as BIO tags. Like conlleval, read an I or E tag that continues no chunk as a new chunk.

    A chunk begins at B and S, after E, S and O, and at a change of type.
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


def load_annotator(card_path: Path) -> StanzaAnnotator | TreeAnnotator:
    """Load the parser or chunker of a card, on a GPU if torch sees one, or its trees, and verify the files.

    Raises DamagedFileError if the card or a model file was altered, MismatchError if the card was written with another
    version of Stanza or the model files do not fit together, DataError if a model file is unusable.
    """
    card = Card.read(card_path)
    for what, described, present in (
        ("Stanza", card.stanza, importlib.metadata.version("stanza")),
        ("phrasemt's annotations", card.options.get("version"), ANNOTATION_VERSION),
    ):
        problem = f"the annotator was described under another version of {what}"
        next_step = "install that version, or delete the card and run again"
        check_equal(described, present, problem, where=card_path, next_step=next_step)
    card.verify()
    files = {role: file.path for role, file in card.files.items()}
    if card.origin == "trees":
        return TreeAnnotator(files["trees"])
    annotator = ParserAnnotator if card.kind == "constituency" else ChunkerAnnotator
    return annotator(files, card.options["longest"])
