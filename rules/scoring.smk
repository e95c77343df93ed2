# BLEU of each system, and the significance of its difference to the baseline. Seconds for a test set, so one job has all of
# a data set.


rule score_system:
    input:
        tokens=flow.of_test_sets("translations/{system}/{seed}/{split}.tok"),
        text=flow.of_test_sets("translations/{system}/{seed}/{split}.txt"),
        reference_tokens=flow.of_test_sets("tokens/{split}.{target}"),
        reference=flow.of_test_sets("corpus/{split}.{target}"),
    output:
        scores="<results>/{dataset}.{source}-{target}/scores/{system}/{seed}.json",
    log:
        "<logs>/score_system/{dataset}.{source}-{target}/{system}.{seed}.log",
    benchmark:
        "<benchmarks>/score_system/{dataset}.{source}-{target}/{system}.{seed}.tsv"
    conda:
        "../envs/score.yaml"
    threads: 1
    params:
        settings=flow.settings("score_system"),
        code=flow.code("score_system"),
    message:
        "Score {wildcards.system}, seed {wildcards.seed}, on the test sets of {wildcards.dataset}"
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
            "<results>/{{dataset}}.{{source}}-{{target}}/scores/{system}/{seed}.json",
            system=flow.baseline,
            seed=flow.seeds,
        ),
        system=expand(
            "<results>/{{dataset}}.{{source}}-{{target}}/scores/{{system}}/{seed}.json",
            seed=flow.seeds,
        ),
    output:
        comparison="<results>/{dataset}.{source}-{target}/comparisons/{system}.json",
    log:
        "<logs>/compare_systems/{dataset}.{source}-{target}/{system}.log",
    benchmark:
        "<benchmarks>/compare_systems/{dataset}.{source}-{target}/{system}.tsv"
    conda:
        "../envs/score.yaml"
    threads: 1
    params:
        settings=flow.settings("compare_systems"),
        code=flow.code("compare_systems"),
    message:
        "Compare {wildcards.system} with the baseline on the test sets of {wildcards.dataset}"
    shell:
        "python -m phrasemt compare_systems"
        " --baseline {input.baseline}"
        " --system {input.system}"
        " --comparison {output.comparison}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"
