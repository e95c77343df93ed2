"""Special symbols with their ids, the mark of subwords, and the labels of chunks. Every vocabulary has the same ids."""

from __future__ import annotations

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")

SEPARATOR = "@@"  # ends every subword of a word but the last one

# Chunk types of CoNLL-2000, and label classes of Zhou et al. (2017). A token outside of chunks forms a chunk with label
# O, and `</s>` a chunk with label eos. NULL is the class of a position inside a chunk; no chunk has it as its label.
CHUNK_TYPES = ("NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP")
CHUNK_LABELS = ("eos", "NULL", *CHUNK_TYPES, "O")
EOS_LABEL, NULL_LABEL = 0, 1
