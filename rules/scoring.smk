# BLEU of each system, and the significance of its difference to the baseline. Seconds for a test set, so one job has all of
# a data set.


rule score_system:
    input:
        tokens=flow.of_test_sets(paths.translated_tokens),
        text=flow.of_test_sets(paths.translated_text),
        reference_tokens=flow.of_test_sets(paths.tokens.at(language="{target}")),
        reference=flow.of_test_sets(paths.text.at(language="{target}")),
    output:
        scores=paths.scores,
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


rule compare_systems:
    input:
        baseline=flow.of_seeds(paths.scores.at(system=flow.baseline)),
        system=flow.of_seeds(paths.scores),
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
        "Compare {wildcards.system} with the baseline on the test sets of {wildcards.dataset}"
    shell:
        flow.command("compare_systems")
