# Texts: fetched, of the user, partitioned or generated; then checked and cleaned.


localrules:
    fetch_corpus,


rule fetch_corpus:
    output:
        file="resources/{corpus}/original/{file}",
    log:
        "<logs>/fetch_corpus/{corpus}/{file}.log",
    benchmark:
        "<benchmarks>/fetch_corpus/{corpus}/{file}.tsv"
    conda:
        "../envs/text.yaml"
    threads: 1
    params:
        settings=flow.settings("fetch_corpus"),
        code=flow.code("fetch_corpus"),
        entry=flow.corpus_entry,
    message:
        "Fetch {wildcards.file} of {wildcards.corpus}"
    shell:
        "python -m phrasemt fetch_corpus"
        " --file {output.file}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule extract_text:
    input:
        files=flow.original_files,
    output:
        text="resources/{corpus}/{part}.{language}",
    log:
        "<logs>/extract_text/{corpus}/{part}.{language}.log",
    benchmark:
        "<benchmarks>/extract_text/{corpus}/{part}.{language}.tsv"
    conda:
        "../envs/text.yaml"
    threads: 1
    params:
        settings=flow.settings("extract_text"),
        code=flow.code("extract_text"),
        entry=flow.corpus_entry,
    message:
        "Take the {wildcards.language} side of {wildcards.corpus} {wildcards.part} out of what was fetched"
    shell:
        "python -m phrasemt extract_text"
        " --files {input.files}"
        " --text {output.text}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule partition_corpus:
    input:
        source=flow.whole_text("source"),
        target=flow.whole_text("target"),
    output:
        train_source="<results>/{dataset}.{source}-{target}/raw/train.{source}",
        train_target="<results>/{dataset}.{source}-{target}/raw/train.{target}",
        dev_source="<results>/{dataset}.{source}-{target}/raw/dev.{source}",
        dev_target="<results>/{dataset}.{source}-{target}/raw/dev.{target}",
        test_source="<results>/{dataset}.{source}-{target}/raw/test.{source}",
        test_target="<results>/{dataset}.{source}-{target}/raw/test.{target}",
    log:
        "<logs>/partition_corpus/{dataset}.{source}-{target}.log",
    benchmark:
        "<benchmarks>/partition_corpus/{dataset}.{source}-{target}.tsv"
    wildcard_constraints:
        dataset=flow.only(flow.partitioned),
    conda:
        "../envs/text.yaml"
    threads: 1
    params:
        settings=flow.settings("partition_corpus"),
        code=flow.code("partition_corpus"),
    message:
        "Cut {wildcards.dataset} into train, dev and test without shared sentences"
    shell:
        "python -m phrasemt partition_corpus"
        " --source {input.source:q}"
        " --target {input.target:q}"
        " --train-source {output.train_source}"
        " --train-target {output.train_target}"
        " --dev-source {output.dev_source}"
        " --dev-target {output.dev_target}"
        " --test-source {output.test_source}"
        " --test-target {output.test_target}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule generate_demo:
    output:
        source="<results>/{dataset}.{source}-{target}/raw/{split}.{source}",
        target="<results>/{dataset}.{source}-{target}/raw/{split}.{target}",
        trees="<results>/{dataset}.{source}-{target}/raw/{split}.trees",
        source_chunks="<results>/{dataset}.{source}-{target}/raw/{split}.chunks.{source}",
        target_chunks="<results>/{dataset}.{source}-{target}/raw/{split}.chunks.{target}",
        contrasts="<results>/{dataset}.{source}-{target}/raw/{split}.contrasts.tsv",
    log:
        "<logs>/generate_demo/{dataset}.{source}-{target}/{split}.log",
    benchmark:
        "<benchmarks>/generate_demo/{dataset}.{source}-{target}/{split}.tsv"
    wildcard_constraints:
        dataset=flow.only(flow.generated),
    conda:
        "../envs/text.yaml"
    threads: 1
    params:
        settings=flow.settings("generate_demo"),
        code=flow.code("generate_demo"),
    message:
        "Generate the {wildcards.split} pairs of {wildcards.dataset}"
    shell:
        "python -m phrasemt generate_demo"
        " --source {output.source}"
        " --target {output.target}"
        " --trees {output.trees}"
        " --source-chunks {output.source_chunks}"
        " --target-chunks {output.target_chunks}"
        " --contrasts {output.contrasts}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule clean_pairs:
    input:
        raw_source=flow.raw_texts("source"),
        raw_target=flow.raw_texts("target"),
    output:
        source="<results>/{dataset}.{source}-{target}/corpus/{split}.{source}",
        target="<results>/{dataset}.{source}-{target}/corpus/{split}.{target}",
        rows="<results>/{dataset}.{source}-{target}/corpus/{split}.rows",
        dropped="<results>/{dataset}.{source}-{target}/corpus/{split}.dropped.tsv",
    log:
        "<logs>/clean_pairs/{dataset}.{source}-{target}/{split}.log",
    benchmark:
        "<benchmarks>/clean_pairs/{dataset}.{source}-{target}/{split}.tsv"
    conda:
        "../envs/text.yaml"
    threads: 1
    params:
        settings=flow.settings("clean_pairs"),
        code=flow.code("clean_pairs"),
    message:
        "Check and clean the {wildcards.split} pairs of {wildcards.dataset}"
    shell:
        "python -m phrasemt clean_pairs"
        " --raw-source {input.raw_source:q}"
        " --raw-target {input.raw_target:q}"
        " --source {output.source}"
        " --target {output.target}"
        " --rows {output.rows}"
        " --dropped {output.dropped}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"
