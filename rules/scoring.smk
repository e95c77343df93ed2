# BLEU of each system, and the significance of its difference to the baseline. Seconds for a test set, so one job has all of
# a data set.


rule score_system:
    input:
        tokens=flow.of(paths.translated_tokens, "test sets"),
        text=flow.of(paths.translated_text, "test sets"),
        reference_tokens=flow.of(paths.tokens.at(language="{target}"), "references"),
        reference=flow.of(paths.clean_text.at(language="{target}"), "references"),
    output:
        scores=paths.system_scores,
    log:
        flow.log("score_system"),
    benchmark:
        flow.benchmark("score_system")
    conda:
        "../envs/score.yaml"
    params:
        **flow.params("score_system"),
    message:
        "Score {wildcards.system}, seed {wildcards.seed}, on the test sets of {wildcards.dataset}"
    shell:
        flow.command("score_system")


rule score_metric:
    input:
        text=flow.of(paths.translated_text, "test sets"),
        reference=flow.of(paths.clean_text.at(language="{target}"), "references"),
        source=flow.of(paths.clean_text.at(language="{source}"), "test sets"),
        files=flow.files("score_metric", "files"),
    output:
        scores=paths.metric_scores,
    log:
        flow.log("score_metric"),
    benchmark:
        flow.benchmark("score_metric")
    conda:
        "../envs/score.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("score_metric"),
    message:
        "Metric {wildcards.metric} of {wildcards.system}, seed {wildcards.seed}, on the test sets of {wildcards.dataset}"
    shell:
        flow.command("score_metric")


rule measure_variation:
    input:
        repeated=flow.of(paths.system_scores, "repeated seeds"),
        repeated_metrics=flow.of(paths.metric_scores, "metrics", "repeated seeds"),
        repeated_forced=flow.of(paths.attention_analysis, "test sets", "repeated forced seeds"),
    output:
        variation=paths.seed_variation,
    log:
        flow.log("measure_variation"),
    benchmark:
        flow.benchmark("measure_variation")
    conda:
        "../envs/score.yaml"
    params:
        **flow.params("measure_variation"),
    message:
        "Measure how far trainings with other seeds differ on the test sets of {wildcards.dataset}"
    shell:
        flow.command("measure_variation")


rule compare_systems:
    input:
        baseline=flow.of(paths.system_scores, "seeds of the baseline"),
        system=flow.of(paths.system_scores, "seeds"),
        variation=flow.of(paths.seed_variation, "repeated"),
        baseline_metrics=flow.of(paths.metric_scores, "metrics", "seeds of the baseline"),
        system_metrics=flow.of(paths.metric_scores, "metrics", "seeds"),
        forced=flow.of(paths.attention_analysis, "test sets", "forced seeds"),
    output:
        comparison=paths.comparison,
    log:
        flow.log("compare_systems"),
    benchmark:
        flow.benchmark("compare_systems")
    conda:
        "../envs/score.yaml"
    params:
        **flow.params("compare_systems"),
    message:
        "Compare {wildcards.system} with its baseline on the test sets of {wildcards.dataset}"
    shell:
        flow.command("compare_systems")
