# Tokens, subwords, vocabularies, and the packed examples.


rule tokenize_text:
    input:
        text="<results>/{dataset}.{source}-{target}/corpus/{split}.{language}",
    output:
        tokens="<results>/{dataset}.{source}-{target}/tokens/{split}.{language}",
    log:
        "<logs>/tokenize_text/{dataset}.{source}-{target}/{split}.{language}.log",
    benchmark:
        "<benchmarks>/tokenize_text/{dataset}.{source}-{target}/{split}.{language}.tsv"
    conda:
        "../envs/text.yaml"
    threads: flow.cores(4)
    params:
        settings=flow.settings("tokenize_text"),
        code=flow.code("tokenize_text"),
    message:
        "Tokenize the {wildcards.language} side of {wildcards.dataset} {wildcards.split}"
    shell:
        "python -m phrasemt tokenize_text"
        " --text {input.text}"
        " --tokens {output.tokens}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule learn_subwords:
    input:
        source="<results>/{dataset}.{source}-{target}/tokens/train.{source}",
        target="<results>/{dataset}.{source}-{target}/tokens/train.{target}",
    output:
        codes="<results>/{dataset}.{source}-{target}/subwords/codes.bpe",
        source_counts="<results>/{dataset}.{source}-{target}/subwords/counts.{source}",
        target_counts="<results>/{dataset}.{source}-{target}/subwords/counts.{target}",
    log:
        "<logs>/learn_subwords/{dataset}.{source}-{target}.log",
    benchmark:
        "<benchmarks>/learn_subwords/{dataset}.{source}-{target}.tsv"
    conda:
        "../envs/text.yaml"
    threads: flow.cores(4)
    params:
        settings=flow.settings("learn_subwords"),
        code=flow.code("learn_subwords"),
    message:
        "Learn the subwords of {wildcards.dataset} on both languages together"
    shell:
        "python -m phrasemt learn_subwords"
        " --source {input.source}"
        " --target {input.target}"
        " --codes {output.codes}"
        " --source-counts {output.source_counts}"
        " --target-counts {output.target_counts}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule apply_subwords:
    input:
        tokens="<results>/{dataset}.{source}-{target}/tokens/{split}.{language}",
        codes="<results>/{dataset}.{source}-{target}/subwords/codes.bpe",
        counts="<results>/{dataset}.{source}-{target}/subwords/counts.{language}",
    output:
        subwords="<results>/{dataset}.{source}-{target}/subwords/{split}.{language}",
    log:
        "<logs>/apply_subwords/{dataset}.{source}-{target}/{split}.{language}.log",
    benchmark:
        "<benchmarks>/apply_subwords/{dataset}.{source}-{target}/{split}.{language}.tsv"
    conda:
        "../envs/text.yaml"
    threads: flow.cores(4)
    params:
        settings=flow.settings("apply_subwords"),
        code=flow.code("apply_subwords"),
    message:
        "Cut the {wildcards.language} side of {wildcards.dataset} {wildcards.split} into subwords"
    shell:
        "python -m phrasemt apply_subwords"
        " --tokens {input.tokens}"
        " --codes {input.codes}"
        " --counts {input.counts}"
        " --subwords {output.subwords}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule build_vocabulary:
    input:
        source=flow.subwords("source", "train"),
        target=flow.subwords("target", "train"),
    output:
        source_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{source}.tsv",
        target_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{target}.tsv",
    log:
        "<logs>/build_vocabulary/{dataset}.{source}-{target}.log",
    benchmark:
        "<benchmarks>/build_vocabulary/{dataset}.{source}-{target}.tsv"
    conda:
        "../envs/text.yaml"
    threads: 1
    params:
        settings=flow.settings("build_vocabulary"),
        code=flow.code("build_vocabulary"),
    message:
        "Number the subwords of {wildcards.dataset}"
    shell:
        "python -m phrasemt build_vocabulary"
        " --source {input.source}"
        " --target {input.target}"
        " --source-vocabulary {output.source_vocabulary}"
        " --target-vocabulary {output.target_vocabulary}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule pack_examples:
    input:
        rows="<results>/{dataset}.{source}-{target}/corpus/{split}.rows",
        source=flow.subwords("source"),
        target=flow.subwords("target"),
        source_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{source}.tsv",
        target_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{target}.tsv",
    output:
        examples="<results>/{dataset}.{source}-{target}/examples/{split}.arrow",
    log:
        "<logs>/pack_examples/{dataset}.{source}-{target}/{split}.log",
    benchmark:
        "<benchmarks>/pack_examples/{dataset}.{source}-{target}/{split}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: 1
    params:
        settings=flow.settings("pack_examples"),
        code=flow.code("pack_examples"),
    message:
        "Pack the {wildcards.split} pairs of {wildcards.dataset}"
    shell:
        "python -m phrasemt pack_examples"
        " --rows {input.rows}"
        " --source {input.source}"
        " --target {input.target}"
        " --source-vocabulary {input.source_vocabulary}"
        " --target-vocabulary {input.target_vocabulary}"
        " --examples {output.examples}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"
