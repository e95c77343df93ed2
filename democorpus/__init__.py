"""The demonstration corpus: English-German sentence pairs from a synchronous grammar, in any number.

The corpus needs no download and no licence. It is large enough to train a neural system, and it contains the phenomena
that models of phrases claim to handle: agreement over a distance, verbs at the end of the clause, separable verbs and
rich inflection. Each pair has a gold constituency tree of the English side and gold chunks of both sides. Many pairs
have a contrastive variant, in which the German verb has the wrong number.

A sentence pair passes through these modules:

    lexicon      the words with all their forms; lexicon.tsv is the table of English words and their translations
    grammar      the content of a sentence, independent of the language: a derivation
    sampling     random derivations
    english      a derivation as an English sentence with tree and chunks
    german       the same derivation as a German sentence with chunks and agreement
    units        sentences with idioms, particle verbs and compounds (units.tsv), if a study asks for them
    long         sentences of two to four sentences, if a study asks for them
    pairs        the pairs of a split, and contrastive pairs by distance

Nothing here imports phrasemt, whose stage `generate_demo` writes the files of a split.
"""
