# Tokens, subwords, vocabularies, and the packed examples.


rule tokenize_text:
    input:
        text=paths.clean_text,
    output:
        tokens=paths.tokens,
        round_trip=paths.round_trip,
    log:
        flow.log("tokenize_text"),
    benchmark:
        flow.benchmark("tokenize_text")
    conda:
        "../envs/text.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("tokenize_text"),
    message:
        "Tokenize the {wildcards.language} side of {wildcards.dataset} {wildcards.split}"
    shell:
        flow.command("tokenize_text")


rule learn_subwords:
    input:
        source=paths.tokens.at(split="train", language="{source}"),
        target=paths.tokens.at(split="train", language="{target}"),
        given=flow.files("learn_subwords", "given"),
    output:
        codes=paths.codes,
        source_counts=paths.subword_counts.at(language="{source}"),
        target_counts=paths.subword_counts.at(language="{target}"),
    log:
        flow.log("learn_subwords"),
    benchmark:
        flow.benchmark("learn_subwords")
    conda:
        "../envs/text.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("learn_subwords"),
    message:
        "Learn the subwords of {wildcards.dataset} on both languages together"
    shell:
        flow.command("learn_subwords")


rule apply_subwords:
    input:
        tokens=paths.tokens,
        codes=paths.codes,
        counts=paths.subword_counts,
    output:
        subwords=paths.subwords,
    log:
        flow.log("apply_subwords"),
    benchmark:
        flow.benchmark("apply_subwords")
    conda:
        "../envs/text.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("apply_subwords"),
    message:
        "Cut the {wildcards.language} side of {wildcards.dataset} {wildcards.split} into subwords"
    shell:
        flow.command("apply_subwords")


rule build_vocabulary:
    input:
        source=flow.of(flow.text_of_models("source"), split="train"),
        target=flow.of(flow.text_of_models("target"), split="train"),
        given=flow.files("build_vocabulary", "given"),
    output:
        source_vocabulary=paths.vocabulary.at(language="{source}"),
        target_vocabulary=paths.vocabulary.at(language="{target}"),
    log:
        flow.log("build_vocabulary"),
    benchmark:
        flow.benchmark("build_vocabulary")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("build_vocabulary"),
    message:
        "Number the subwords of {wildcards.dataset}"
    shell:
        flow.command("build_vocabulary")


rule pack_examples:
    input:
        rows=paths.rows,
        source=flow.of(flow.text_of_models("source")),
        target=flow.of(flow.text_of_models("target")),
        source_vocabulary=paths.vocabulary.at(language="{source}"),
        target_vocabulary=paths.vocabulary.at(language="{target}"),
    output:
        examples=paths.examples,
    log:
        flow.log("pack_examples"),
    benchmark:
        flow.benchmark("pack_examples")
    conda:
        "../envs/torch.yaml"
    params:
        **flow.params("pack_examples"),
    message:
        "Pack the {wildcards.split} pairs of {wildcards.dataset}"
    shell:
        flow.command("pack_examples")


rule compare_splits:
    input:
        train_source=paths.clean_text.at(split="train", language="{source}"),
        train_target=paths.clean_text.at(split="train", language="{target}"),
        sources=flow.of(paths.clean_text.at(language="{source}"), "dev and test sets"),
        targets=flow.of(paths.clean_text.at(language="{target}"), "dev and test sets"),
        references=flow.of(paths.clean_text.at(language="{target}"), "further references"),
        source_subwords=flow.of(flow.text_of_models("source"), "dev and test sets"),
        target_subwords=flow.of(flow.text_of_models("target"), "dev and test sets"),
    output:
        counts=paths.compared_splits,
    log:
        flow.log("compare_splits"),
    benchmark:
        flow.benchmark("compare_splits")
    priority: flow.priority
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("compare_splits"),
    message:
        "Count what dev and test sets of {wildcards.dataset} share with train"
    shell:
        flow.command("compare_splits")
