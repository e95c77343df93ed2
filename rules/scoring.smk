# BLEU of each system, and the significance of its difference to the baseline. Seconds for a test set, so one job has all of
# a data set.


rule score_system:
    input:
        tokens=flow.of_test_sets(paths.translated_tokens),
        text=flow.of_test_sets(paths.translated_text),
        reference_tokens=flow.of_references(paths.tokens.at(language="{target}")),
        reference=flow.of_references(paths.clean_text.at(language="{target}")),
    output:
        scores=paths.system_scores,
    log:
        paths.log("score_system"),
    benchmark:
        paths.benchmark("score_system")
    conda:
        "../envs/score.yaml"
    threads: 1
    params:
        **flow.params("score_system"),
    message:
        "Score {wildcards.system}, seed {wildcards.seed}, on the test sets of {wildcards.dataset}"
    shell:
        flow.command("score_system")


rule score_metric:
    input:
        text=flow.of_test_sets(paths.translated_text),
        reference=flow.of_references(paths.clean_text.at(language="{target}")),
        source=flow.of_test_sets(paths.clean_text.at(language="{source}")),
        files=flow.metric_files,
    output:
        scores=paths.metric_scores,
    log:
        paths.log("score_metric"),
    benchmark:
        paths.benchmark("score_metric")
    conda:
        "../envs/score.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("score_metric"),
    message:
        "Metric {wildcards.metric} of {wildcards.system}, seed {wildcards.seed}, on the test sets of {wildcards.dataset}"
    shell:
        flow.command("score_metric")


rule score_by_length:
    input:
        scores=flow.of_seeds(paths.system_scores),
        source_tokens=flow.of_test_sets(paths.tokens.at(language="{source}")),
    output:
        lengths=paths.length_scores,
    log:
        paths.log("score_by_length"),
    benchmark:
        paths.benchmark("score_by_length")
    conda:
        "../envs/score.yaml"
    threads: 1
    params:
        **flow.params("score_by_length"),
    message:
        "BLEU of {wildcards.system} by the length of the source, test sets of {wildcards.dataset}"
    shell:
        flow.command("score_by_length")


rule compare_systems:
    input:
        baseline=flow.of_seeds_of_baseline(paths.system_scores),
        system=flow.of_seeds(paths.system_scores),
        repeated=flow.of_repeated(paths.system_scores),
        baseline_metrics=flow.of_metrics(flow.of_seeds_of_baseline),
        system_metrics=flow.of_metrics(flow.of_seeds),
        repeated_metrics=flow.of_metrics(flow.of_repeated),
    output:
        comparison=paths.comparison,
    log:
        paths.log("compare_systems"),
    benchmark:
        paths.benchmark("compare_systems")
    conda:
        "../envs/score.yaml"
    threads: 1
    params:
        **flow.params("compare_systems"),
    message:
        "Compare {wildcards.system} with its baseline on the test sets of {wildcards.dataset}"
    shell:
        flow.command("compare_systems")
