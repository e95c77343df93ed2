"""Special symbols, at the same ids in every vocabulary; the mark of subwords; the labels of chunks."""

from __future__ import annotations

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")

SEPARATOR = "@@"  # at the end of a subword that is not the last of its word

# Chunk types of CoNLL-2000, and the classes of a classifier of chunk labels: each token outside of chunks is a chunk O,
# `</s>` a chunk eos; NULL is what a classifier says inside a chunk, never the label of one (Zhou et al. 2017).
CHUNK_TYPES = ("NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP")
CHUNK_LABELS = ("eos", "NULL", *CHUNK_TYPES, "O")
EOS_LABEL, NULL_LABEL = 0, 1
