# BLEU of each system, and the significance of its difference to the baseline.


rule score_system:
    input:
        tokens="<results>/{dataset}.{source}-{target}/translations/{system}/{seed}/{split}.tok",
        text="<results>/{dataset}.{source}-{target}/translations/{system}/{seed}/{split}.txt",
        reference_tokens="<results>/{dataset}.{source}-{target}/tokens/{split}.{target}",
        reference="<results>/{dataset}.{source}-{target}/corpus/{split}.{target}",
    output:
        scores="<results>/{dataset}.{source}-{target}/scores/{system}/{seed}/{split}.json",
    log:
        "<logs>/score_system/{dataset}.{source}-{target}/{system}.{seed}.{split}.log",
    benchmark:
        "<benchmarks>/score_system/{dataset}.{source}-{target}/{system}.{seed}.{split}.tsv"
    conda:
        "../envs/score.yaml"
    threads: 1
    params:
        settings=flow.settings("score_system"),
        code=flow.code("score_system"),
    message:
        "Score {wildcards.system} on {wildcards.dataset} {wildcards.split}, seed {wildcards.seed}"
    shell:
        "python -m phrasemt score_system"
        " --tokens {input.tokens}"
        " --text {input.text}"
        " --reference-tokens {input.reference_tokens}"
        " --reference {input.reference}"
        " --scores {output.scores}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule compare_systems:
    input:
        baseline=expand(
            "<results>/{{dataset}}.{{source}}-{{target}}/scores/{system}/{seed}/{{split}}.json",
            system=flow.baseline,
            seed=flow.seeds,
        ),
        system=expand(
            "<results>/{{dataset}}.{{source}}-{{target}}/scores/{{system}}/{seed}/{{split}}.json",
            seed=flow.seeds,
        ),
    output:
        comparison="<results>/{dataset}.{source}-{target}/comparisons/{system}/{split}.json",
    log:
        "<logs>/compare_systems/{dataset}.{source}-{target}/{system}.{split}.log",
    benchmark:
        "<benchmarks>/compare_systems/{dataset}.{source}-{target}/{system}.{split}.tsv"
    conda:
        "../envs/score.yaml"
    threads: 1
    params:
        settings=flow.settings("compare_systems"),
        code=flow.code("compare_systems"),
    message:
        "Compare {wildcards.system} with the baseline on {wildcards.dataset} {wildcards.split}"
    shell:
        "python -m phrasemt compare_systems"
        " --baseline {input.baseline}"
        " --system {input.system}"
        " --comparison {output.comparison}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"
