# Translations by beam search; forced decoding of contrastive pairs and of references.


rule translate:
    input:
        weights="<results>/{dataset}.{source}-{target}/models/{system}/{seed}/averaged.safetensors",
        examples="<results>/{dataset}.{source}-{target}/examples/{split}.arrow",
        source_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{source}.tsv",
        target_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{target}.tsv",
        phrases=flow.phrases(),
    output:
        translations="<results>/{dataset}.{source}-{target}/translations/{system}/{seed}/{split}.jsonl",
        tokens="<results>/{dataset}.{source}-{target}/translations/{system}/{seed}/{split}.tok",
        text="<results>/{dataset}.{source}-{target}/translations/{system}/{seed}/{split}.txt",
    log:
        "<logs>/translate/{dataset}.{source}-{target}/{system}.{seed}.{split}.log",
    benchmark:
        "<benchmarks>/translate/{dataset}.{source}-{target}/{system}.{seed}.{split}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: flow.cores(4)
    params:
        settings=flow.settings("translate"),
        code=flow.code("translate"),
    message:
        "Translate {wildcards.dataset} {wildcards.split} with {wildcards.system}, seed {wildcards.seed}"
    shell:
        "python -m phrasemt translate"
        " --weights {input.weights}"
        " --examples {input.examples}"
        " --source-vocabulary {input.source_vocabulary}"
        " --target-vocabulary {input.target_vocabulary}"
        " --phrases {input.phrases}"
        " --translations {output.translations}"
        " --tokens {output.tokens}"
        " --text {output.text}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule score_contrasts:
    input:
        weights="<results>/{dataset}.{source}-{target}/models/{system}/{seed}/averaged.safetensors",
        contrasts="<results>/{dataset}.{source}-{target}/raw/test.contrasts.tsv",
        codes=flow.of_subwords("codes.bpe"),
        source_counts=flow.of_subwords("counts.{source}"),
        target_counts=flow.of_subwords("counts.{target}"),
        source_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{source}.tsv",
        target_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{target}.tsv",
        phrases=flow.phrases("test"),
    output:
        accuracy="<results>/{dataset}.{source}-{target}/contrasts/{system}/{seed}.json",
    log:
        "<logs>/score_contrasts/{dataset}.{source}-{target}/{system}.{seed}.log",
    benchmark:
        "<benchmarks>/score_contrasts/{dataset}.{source}-{target}/{system}.{seed}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: flow.cores(4)
    params:
        settings=flow.settings("score_contrasts"),
        code=flow.code("score_contrasts"),
    message:
        "Let {wildcards.system}, seed {wildcards.seed}, choose between right and wrong translations"
    shell:
        "python -m phrasemt score_contrasts"
        " --weights {input.weights}"
        " --contrasts {input.contrasts}"
        " --codes {input.codes}"
        " --source-counts {input.source_counts}"
        " --target-counts {input.target_counts}"
        " --source-vocabulary {input.source_vocabulary}"
        " --target-vocabulary {input.target_vocabulary}"
        " --phrases {input.phrases}"
        " --accuracy {output.accuracy}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule score_perplexity:
    input:
        weights="<results>/{dataset}.{source}-{target}/models/{system}/{seed}/averaged.safetensors",
        examples=flow.of_test_sets("examples/{split}.arrow"),
        tokens=flow.of_test_sets("tokens/{split}.{target}"),
        source_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{source}.tsv",
        target_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{target}.tsv",
    output:
        perplexity="<results>/{dataset}.{source}-{target}/perplexities/{system}/{seed}.json",
    log:
        "<logs>/score_perplexity/{dataset}.{source}-{target}/{system}.{seed}.log",
    benchmark:
        "<benchmarks>/score_perplexity/{dataset}.{source}-{target}/{system}.{seed}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: flow.cores(4)
    params:
        settings=flow.settings("score_perplexity"),
        code=flow.code("score_perplexity"),
    message:
        "Perplexity of {wildcards.system}, seed {wildcards.seed}, on the test sets of {wildcards.dataset}"
    shell:
        "python -m phrasemt score_perplexity"
        " --weights {input.weights}"
        " --examples {input.examples}"
        " --tokens {input.tokens}"
        " --source-vocabulary {input.source_vocabulary}"
        " --target-vocabulary {input.target_vocabulary}"
        " --perplexity {output.perplexity}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule score_chunks:
    input:
        weights="<results>/{dataset}.{source}-{target}/models/{system}/{seed}/averaged.safetensors",
        examples=flow.of_test_sets("examples/{split}.arrow"),
        source_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{source}.tsv",
        target_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{target}.tsv",
        chunks=flow.of_test_sets("chunks/{split}.arrow"),
    output:
        scores="<results>/{dataset}.{source}-{target}/chunk_scores/{system}/{seed}.json",
    log:
        "<logs>/score_chunks/{dataset}.{source}-{target}/{system}.{seed}.log",
    benchmark:
        "<benchmarks>/score_chunks/{dataset}.{source}-{target}/{system}.{seed}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: flow.cores(4)
    params:
        settings=flow.settings("score_chunks"),
        code=flow.code("score_chunks"),
    message:
        "Let {wildcards.system}, seed {wildcards.seed}, decide about chunks of the test sets of {wildcards.dataset}"
    shell:
        "python -m phrasemt score_chunks"
        " --weights {input.weights}"
        " --examples {input.examples}"
        " --source-vocabulary {input.source_vocabulary}"
        " --target-vocabulary {input.target_vocabulary}"
        " --chunks {input.chunks}"
        " --scores {output.scores}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"
