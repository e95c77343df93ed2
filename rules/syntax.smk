# Parsers and chunkers; the sentences they see, through the parse store; phrases of the source, chunks of the target.
#
# Jobs that a training waits for begin before trainings that wait for nothing (flow.priority).
#
# The store is the folder $PHRASEMT_CACHE, by default resources/cache. It is no output:
# what a job finds there it need not parse again, and the job's own output is whole without it.


localrules:
    fetch_stanza_file,


rule fetch_stanza_file:
    output:
        file=paths.stanza_file,
    log:
        flow.log("fetch_stanza_file"),
    benchmark:
        flow.benchmark("fetch_stanza_file")
    conda:
        "../envs/syntax.yaml"
    params:
        **flow.params("fetch_stanza_file"),
    message:
        "Fetch {wildcards.file} of Stanza's models for {wildcards.language}"
    shell:
        flow.command("fetch_stanza_file")


rule describe_annotator:
    input:
        constituency=flow.files("describe_annotator", "constituency"),
        tagger=flow.files("describe_annotator", "tagger"),
        vectors=flow.files("describe_annotator", "vectors"),
        forward_charlm=flow.files("describe_annotator", "forward_charlm"),
        backward_charlm=flow.files("describe_annotator", "backward_charlm"),
    output:
        annotator=paths.card,
    log:
        flow.log("describe_annotator"),
    benchmark:
        flow.benchmark("describe_annotator")
    wildcard_constraints:
        annotator=flow.only(flow.published_parsers),
    conda:
        "../envs/syntax.yaml"
    params:
        **flow.params("describe_annotator"),
    message:
        "Describe the published parser {wildcards.annotator}"
    shell:
        flow.command("describe_annotator")


rule train_vectors:
    input:
        texts=flow.files("train_vectors", "texts"),
        trees=flow.files("train_vectors", "trees"),
        chunks=flow.files("train_vectors", "chunks"),
    output:
        vectors=paths.vectors,
    log:
        flow.log("train_vectors"),
    benchmark:
        flow.benchmark("train_vectors")
    wildcard_constraints:
        annotator=flow.only(flow.trained_annotators),
    priority: flow.priority
    conda:
        "../envs/syntax.yaml"
    params:
        **flow.params("train_vectors"),
    message:
        "Train the word vectors of {wildcards.annotator}"
    shell:
        flow.command("train_vectors")


rule train_tagger:
    input:
        train=flow.files("train_tagger", "train"),
        dev=flow.files("train_tagger", "dev"),
        test=flow.files("train_tagger", "test"),
        vectors=paths.vectors,
    output:
        tagger=paths.tagger,
        scores=paths.tagger_scores,
    log:
        flow.log("train_tagger"),
    benchmark:
        flow.benchmark("train_tagger")
    wildcard_constraints:
        annotator=flow.only(flow.trained_parsers),
    priority: flow.priority
    conda:
        "../envs/syntax.yaml"
    params:
        **flow.params("train_tagger"),
    message:
        "Train the tagger of the parser {wildcards.annotator}"
    shell:
        flow.command("train_tagger")


rule train_parser:
    input:
        train=flow.files("train_parser", "train"),
        dev=flow.files("train_parser", "dev"),
        test=flow.files("train_parser", "test"),
        vectors=paths.vectors,
        tagger=paths.tagger,
        tagger_scores=paths.tagger_scores,
    output:
        constituency=paths.constituency_parser,
        annotator=paths.card,
    log:
        flow.log("train_parser"),
    benchmark:
        flow.benchmark("train_parser")
    wildcard_constraints:
        annotator=flow.only(flow.trained_parsers),
    priority: flow.priority
    conda:
        "../envs/syntax.yaml"
    params:
        **flow.params("train_parser"),
    message:
        "Train the parser {wildcards.annotator}"
    shell:
        flow.command("train_parser")


rule train_chunker:
    input:
        train=flow.files("train_chunker", "train"),
        dev=flow.files("train_chunker", "dev"),
        test=flow.files("train_chunker", "test"),
        vectors=paths.vectors,
    output:
        chunker=paths.chunker,
        annotator=paths.card,
    log:
        flow.log("train_chunker"),
    benchmark:
        flow.benchmark("train_chunker")
    wildcard_constraints:
        annotator=flow.only(flow.study.chunkers),
    priority: flow.priority
    conda:
        "../envs/syntax.yaml"
    params:
        **flow.params("train_chunker"),
    message:
        "Train the chunk tagger {wildcards.annotator}"
    shell:
        flow.command("train_chunker")


rule collect_trees:
    input:
        files=flow.files("collect_trees", "files"),
    output:
        trees=paths.given_trees,
        annotator=paths.card,
    log:
        flow.log("collect_trees"),
    benchmark:
        flow.benchmark("collect_trees")
    wildcard_constraints:
        annotator=flow.only(flow.parsers_with_trees),
    priority: flow.priority
    conda:
        "../envs/syntax.yaml"
    params:
        **flow.params("collect_trees"),
    message:
        "Collect the trees of {wildcards.annotator}"
    shell:
        flow.command("collect_trees")


rule parse_sentences:
    input:
        tokens=flow.of(paths.tokens, "annotator"),
        annotator=paths.card,
    output:
        annotations=paths.parses,
    log:
        flow.log("parse_sentences"),
    benchmark:
        flow.benchmark("parse_sentences")
    wildcard_constraints:
        annotator=flow.only(flow.study.parsers),
    priority: flow.priority
    conda:
        "../envs/syntax.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("parse_sentences"),
        cache='"$PHRASEMT_CACHE"',
    message:
        "Parse {wildcards.dataset} {wildcards.split} with {wildcards.annotator}, job {wildcards.job}"
    shell:
        flow.command("parse_sentences")


rule tag_sentences:
    input:
        tokens=flow.of(paths.tokens, "annotator"),
        annotator=paths.card,
    output:
        annotations=paths.tags,
    log:
        flow.log("tag_sentences"),
    benchmark:
        flow.benchmark("tag_sentences")
    wildcard_constraints:
        annotator=flow.only(flow.study.chunkers),
    priority: flow.priority
    conda:
        "../envs/syntax.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("tag_sentences"),
        cache='"$PHRASEMT_CACHE"',
    message:
        "Tag the chunks of {wildcards.dataset} {wildcards.split} with {wildcards.annotator}, job {wildcards.job}"
    shell:
        flow.command("tag_sentences")


rule extract_phrases:
    input:
        rows=paths.rows,
        tokens=paths.tokens.at(language="{source}"),
        subwords=flow.of(flow.text_of_models("source")),
        parses=flow.files("extract_phrases", "parses"),
        given=flow.files("extract_phrases", "given"),
        dropped=flow.of(paths.dropped_pairs, "given phrases"),
    output:
        phrases=paths.phrase_columns,
    log:
        flow.log("extract_phrases"),
    benchmark:
        flow.benchmark("extract_phrases")
    priority: flow.priority
    conda:
        "../envs/text.yaml"
    threads: flow.cores(2)
    params:
        **flow.params("extract_phrases"),
    message:
        "Cut {wildcards.dataset} {wildcards.split} into phrases: {wildcards.segmenter}"
    shell:
        flow.command("extract_phrases")


rule measure_phrases:
    input:
        phrases=paths.phrase_columns,
        tokens=paths.tokens.at(language="{source}"),
        subwords=flow.of(flow.text_of_models("source")),
        parses=flow.files("measure_phrases", "parses"),
    output:
        statistics=paths.phrase_statistics,
    log:
        flow.log("measure_phrases"),
    benchmark:
        flow.benchmark("measure_phrases")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("measure_phrases"),
    message:
        "Measure the phrases of {wildcards.dataset} {wildcards.split}: {wildcards.segmenter}"
    shell:
        flow.command("measure_phrases")


rule extract_chunks:
    input:
        rows=paths.rows,
        tokens=paths.tokens.at(language="{target}"),
        subwords=flow.of(flow.text_of_models("target")),
        gold=flow.files("extract_chunks", "gold"),
        tags=flow.files("extract_chunks", "tags"),
    output:
        chunks=paths.chunk_columns,
        statistics=paths.chunk_statistics,
    log:
        flow.log("extract_chunks"),
    benchmark:
        flow.benchmark("extract_chunks")
    wildcard_constraints:
        dataset=flow.only(flow.chunked),
    priority: flow.priority
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("extract_chunks"),
    message:
        "Take the chunks of {wildcards.dataset} {wildcards.split}"
    shell:
        flow.command("extract_chunks")
