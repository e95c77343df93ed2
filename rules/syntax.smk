# Parsers and chunkers; the sentences they see, through the parse store; phrases of the source, chunks of the target.
#
# What a training waits for goes before trainings that wait for nothing (priority).
#
# The store is the folder $PHRASEMT_CACHE, which the study's `cache` sets unless the environment does. It is no output:
# what a job finds there it need not parse again, and the job's own output is whole without it.


localrules:
    fetch_stanza_file,


rule fetch_stanza_file:
    output:
        file="resources/stanza/{language}/{file}",
    log:
        "<logs>/fetch_stanza_file/{language}/{file}.log",
    benchmark:
        "<benchmarks>/fetch_stanza_file/{language}/{file}.tsv"
    conda:
        "../envs/syntax.yaml"
    threads: 1
    params:
        settings=flow.settings("fetch_stanza_file"),
        code=flow.code("fetch_stanza_file"),
        entry=flow.stanza_entry,
    message:
        "Fetch {wildcards.file} of Stanza's models for {wildcards.language}"
    shell:
        "python -m phrasemt fetch_stanza_file"
        " --file {output.file}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule describe_annotator:
    input:
        constituency=flow.model_files("constituency"),
        chunker=flow.model_files("chunker"),
        tagger=flow.model_files("tagger"),
        vectors=flow.model_files("vectors"),
        forward_charlm=flow.model_files("forward_charlm"),
        backward_charlm=flow.model_files("backward_charlm"),
    output:
        annotator="<results>/annotators/{annotator}/annotator.json",
    log:
        "<logs>/describe_annotator/{annotator}.log",
    benchmark:
        "<benchmarks>/describe_annotator/{annotator}.tsv"
    wildcard_constraints:
        annotator=flow.only(flow.ready_annotators),
    conda:
        "../envs/syntax.yaml"
    threads: 1
    params:
        settings=flow.settings("describe_annotator"),
        code=flow.code("describe_annotator"),
    message:
        "Check the model files of {wildcards.annotator}"
    shell:
        "python -m phrasemt describe_annotator"
        " --constituency {input.constituency:q}"
        " --chunker {input.chunker:q}"
        " --tagger {input.tagger:q}"
        " --vectors {input.vectors:q}"
        " --forward-charlm {input.forward_charlm:q}"
        " --backward-charlm {input.backward_charlm:q}"
        " --annotator {output.annotator}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule train_vectors:
    input:
        texts=flow.training_texts("text"),
        trees=flow.training_texts("train", kind="trees"),
        chunks=flow.training_texts("train", kind="chunks"),
    output:
        vectors="<results>/annotators/{annotator}/vectors.pt",
    log:
        "<logs>/train_vectors/{annotator}.log",
    benchmark:
        "<benchmarks>/train_vectors/{annotator}.tsv"
    wildcard_constraints:
        annotator=flow.only(flow.trained_annotators),
    priority: 1
    conda:
        "../envs/syntax.yaml"
    threads: 1
    params:
        settings=flow.settings("train_vectors"),
        code=flow.code("train_vectors"),
    message:
        "Train the word vectors of {wildcards.annotator}"
    shell:
        "python -m phrasemt train_vectors"
        " --texts {input.texts:q}"
        " --trees {input.trees:q}"
        " --chunks {input.chunks:q}"
        " --vectors {output.vectors}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule train_tagger:
    input:
        train=flow.training_texts("train"),
        dev=flow.training_texts("dev"),
        test=flow.training_texts("test"),
        vectors="<results>/annotators/{annotator}/vectors.pt",
    output:
        tagger="<results>/annotators/{annotator}/tagger.pt",
        scores="<results>/annotators/{annotator}/tagger.json",
    log:
        "<logs>/train_tagger/{annotator}.log",
    benchmark:
        "<benchmarks>/train_tagger/{annotator}.tsv"
    wildcard_constraints:
        annotator=flow.only(flow.trained_parsers),
    priority: 1
    conda:
        "../envs/syntax.yaml"
    threads: 1
    params:
        settings=flow.settings("train_tagger"),
        code=flow.code("train_tagger"),
    message:
        "Train the tagger of the parser {wildcards.annotator}"
    shell:
        "python -m phrasemt train_tagger"
        " --train {input.train:q}"
        " --dev {input.dev:q}"
        " --test {input.test:q}"
        " --vectors {input.vectors}"
        " --tagger {output.tagger}"
        " --scores {output.scores}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule train_parser:
    input:
        train=flow.training_texts("train"),
        dev=flow.training_texts("dev"),
        test=flow.training_texts("test"),
        vectors="<results>/annotators/{annotator}/vectors.pt",
        tagger="<results>/annotators/{annotator}/tagger.pt",
        tagger_scores="<results>/annotators/{annotator}/tagger.json",
    output:
        constituency="<results>/annotators/{annotator}/constituency.pt",
        annotator="<results>/annotators/{annotator}/annotator.json",
    log:
        "<logs>/train_parser/{annotator}.log",
    benchmark:
        "<benchmarks>/train_parser/{annotator}.tsv"
    wildcard_constraints:
        annotator=flow.only(flow.trained_parsers),
    priority: 1
    conda:
        "../envs/syntax.yaml"
    threads: 1
    params:
        settings=flow.settings("train_parser"),
        code=flow.code("train_parser"),
    message:
        "Train the parser {wildcards.annotator}"
    shell:
        "python -m phrasemt train_parser"
        " --train {input.train:q}"
        " --dev {input.dev:q}"
        " --test {input.test:q}"
        " --vectors {input.vectors}"
        " --tagger {input.tagger}"
        " --tagger-scores {input.tagger_scores}"
        " --constituency {output.constituency}"
        " --annotator {output.annotator}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule train_chunker:
    input:
        train=flow.training_texts("train"),
        dev=flow.training_texts("dev"),
        test=flow.training_texts("test"),
        vectors="<results>/annotators/{annotator}/vectors.pt",
    output:
        chunker="<results>/annotators/{annotator}/chunker.pt",
        annotator="<results>/annotators/{annotator}/annotator.json",
    log:
        "<logs>/train_chunker/{annotator}.log",
    benchmark:
        "<benchmarks>/train_chunker/{annotator}.tsv"
    wildcard_constraints:
        annotator=flow.only(flow.trained_chunkers),
    conda:
        "../envs/syntax.yaml"
    threads: 1
    params:
        settings=flow.settings("train_chunker"),
        code=flow.code("train_chunker"),
    message:
        "Train the chunk tagger {wildcards.annotator}"
    shell:
        "python -m phrasemt train_chunker"
        " --train {input.train:q}"
        " --dev {input.dev:q}"
        " --test {input.test:q}"
        " --vectors {input.vectors}"
        " --chunker {output.chunker}"
        " --annotator {output.annotator}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule collect_sentences:
    input:
        tokens="<results>/{dataset}.{source}-{target}/tokens/{split}.{language}",
    output:
        sentences="<results>/{dataset}.{source}-{target}/sentences/{split}.{language}.arrow",
    log:
        "<logs>/collect_sentences/{dataset}.{source}-{target}/{split}.{language}.log",
    benchmark:
        "<benchmarks>/collect_sentences/{dataset}.{source}-{target}/{split}.{language}.tsv"
    conda:
        "../envs/text.yaml"
    threads: 1
    params:
        settings=flow.settings("collect_sentences"),
        code=flow.code("collect_sentences"),
    message:
        "Collect the {wildcards.language} sentences of {wildcards.dataset} {wildcards.split}"
    shell:
        "python -m phrasemt collect_sentences"
        " --tokens {input.tokens}"
        " --sentences {output.sentences}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule parse_sentences:
    input:
        sentences=flow.sentences,
        annotator="<results>/annotators/{annotator}/annotator.json",
    output:
        annotations="<results>/{dataset}.{source}-{target}/parses/{annotator}/{split}.{job}.arrow",
    log:
        "<logs>/parse_sentences/{dataset}.{source}-{target}/{annotator}.{split}.{job}.log",
    benchmark:
        "<benchmarks>/parse_sentences/{dataset}.{source}-{target}/{annotator}.{split}.{job}.tsv"
    wildcard_constraints:
        annotator=flow.only(flow.study.parsers),
    priority: 1
    conda:
        "../envs/syntax.yaml"
    threads: flow.cores(4)
    params:
        settings=flow.settings("parse_sentences"),
        code=flow.code("parse_sentences"),
    message:
        "Parse {wildcards.dataset} {wildcards.split} with {wildcards.annotator}, job {wildcards.job}"
    shell:
        "python -m phrasemt parse_sentences"
        " --sentences {input.sentences}"
        " --annotator {input.annotator}"
        " --annotations {output.annotations}"
        ' --cache "$PHRASEMT_CACHE"'
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule tag_sentences:
    input:
        sentences=flow.sentences,
        annotator="<results>/annotators/{annotator}/annotator.json",
    output:
        annotations="<results>/{dataset}.{source}-{target}/tags/{annotator}/{split}.{job}.arrow",
    log:
        "<logs>/tag_sentences/{dataset}.{source}-{target}/{annotator}.{split}.{job}.log",
    benchmark:
        "<benchmarks>/tag_sentences/{dataset}.{source}-{target}/{annotator}.{split}.{job}.tsv"
    wildcard_constraints:
        annotator=flow.only(flow.study.chunkers),
    conda:
        "../envs/syntax.yaml"
    threads: flow.cores(4)
    params:
        settings=flow.settings("tag_sentences"),
        code=flow.code("tag_sentences"),
    message:
        "Tag the chunks of {wildcards.dataset} {wildcards.split} with {wildcards.annotator}, job {wildcards.job}"
    shell:
        "python -m phrasemt tag_sentences"
        " --sentences {input.sentences}"
        " --annotator {input.annotator}"
        " --annotations {output.annotations}"
        ' --cache "$PHRASEMT_CACHE"'
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule extract_phrases:
    input:
        rows="<results>/{dataset}.{source}-{target}/corpus/{split}.rows",
        tokens="<results>/{dataset}.{source}-{target}/tokens/{split}.{source}",
        subwords=flow.subwords("source"),
        parses=flow.parses_for_phrases,
        given=flow.given_phrases,
        dropped=flow.dropped_of_given_phrases,
    output:
        phrases="<results>/{dataset}.{source}-{target}/phrases/{segmenter}/{split}.arrow",
    log:
        "<logs>/extract_phrases/{dataset}.{source}-{target}/{segmenter}.{split}.log",
    benchmark:
        "<benchmarks>/extract_phrases/{dataset}.{source}-{target}/{segmenter}.{split}.tsv"
    conda:
        "../envs/text.yaml"
    threads: flow.cores(2)
    params:
        settings=flow.settings("extract_phrases"),
        code=flow.code("extract_phrases"),
    message:
        "Cut {wildcards.dataset} {wildcards.split} into phrases: {wildcards.segmenter}"
    shell:
        "python -m phrasemt extract_phrases"
        " --rows {input.rows}"
        " --tokens {input.tokens}"
        " --subwords {input.subwords}"
        " --parses {input.parses}"
        " --given {input.given:q}"
        " --dropped {input.dropped}"
        " --phrases {output.phrases}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule measure_phrases:
    input:
        phrases="<results>/{dataset}.{source}-{target}/phrases/{segmenter}/{split}.arrow",
        tokens="<results>/{dataset}.{source}-{target}/tokens/{split}.{source}",
        subwords=flow.subwords("source"),
        parses=flow.source_parses,
    output:
        statistics="<results>/{dataset}.{source}-{target}/phrases/{segmenter}/{split}.json",
    log:
        "<logs>/measure_phrases/{dataset}.{source}-{target}/{segmenter}.{split}.log",
    benchmark:
        "<benchmarks>/measure_phrases/{dataset}.{source}-{target}/{segmenter}.{split}.tsv"
    conda:
        "../envs/text.yaml"
    threads: 1
    params:
        settings=flow.settings("measure_phrases"),
        code=flow.code("measure_phrases"),
    message:
        "Measure the phrases of {wildcards.dataset} {wildcards.split}: {wildcards.segmenter}"
    shell:
        "python -m phrasemt measure_phrases"
        " --phrases {input.phrases}"
        " --tokens {input.tokens}"
        " --subwords {input.subwords}"
        " --parses {input.parses}"
        " --statistics {output.statistics}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule extract_chunks:
    input:
        rows="<results>/{dataset}.{source}-{target}/corpus/{split}.rows",
        tokens="<results>/{dataset}.{source}-{target}/tokens/{split}.{target}",
        subwords=flow.subwords("target"),
        gold=flow.gold_chunks,
        tags=flow.target_tags,
        parses=flow.target_parses,
    output:
        chunks="<results>/{dataset}.{source}-{target}/chunks/{split}.arrow",
        statistics="<results>/{dataset}.{source}-{target}/chunks/{split}.json",
    log:
        "<logs>/extract_chunks/{dataset}.{source}-{target}/{split}.log",
    benchmark:
        "<benchmarks>/extract_chunks/{dataset}.{source}-{target}/{split}.tsv"
    wildcard_constraints:
        dataset=flow.only(flow.chunked),
    conda:
        "../envs/text.yaml"
    threads: 1
    params:
        settings=flow.settings("extract_chunks"),
        code=flow.code("extract_chunks"),
    message:
        "Take the chunks of {wildcards.dataset} {wildcards.split}"
    shell:
        "python -m phrasemt extract_chunks"
        " --rows {input.rows}"
        " --tokens {input.tokens}"
        " --subwords {input.subwords}"
        " --gold {input.gold}"
        " --tags {input.tags}"
        " --parses {input.parses}"
        " --chunks {output.chunks}"
        " --statistics {output.statistics}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"
