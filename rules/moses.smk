# Phrase-based systems of Moses: language model, word alignment, phrase table, weights, translations. Systems with the same
# settings of the model share all files but weights and translations. One core unless a profile sets more.


rule train_truecaser:
    input:
        tokens=paths.tokens.at(split="train"),
    output:
        truecaser=paths.truecaser,
    log:
        flow.log("train_truecaser"),
    benchmark:
        flow.benchmark("train_truecaser")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("train_truecaser"),
    message:
        "Learn the true case of {wildcards.language} words of {wildcards.dataset}"
    shell:
        flow.command("train_truecaser")


rule normalize_case:
    input:
        tokens=paths.tokens,
        truecaser=flow.of(paths.truecaser, "true case"),
    output:
        text=paths.moses_text,
    log:
        flow.log("normalize_case"),
    benchmark:
        flow.benchmark("normalize_case")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("normalize_case"),
    message:
        "Write the {wildcards.language} side of {wildcards.dataset} {wildcards.split} for Moses"
    shell:
        flow.command("normalize_case")


rule train_lm:
    input:
        text=paths.moses_text.at(split="train", language="{target}"),
    output:
        language_model=paths.language_model,
    log:
        flow.log("train_lm"),
    benchmark:
        flow.benchmark("train_lm")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("train_lm"),
    message:
        "Estimate the {wildcards.target} language model of {wildcards.dataset}"
    shell:
        flow.command("train_lm")


rule align_words:
    input:
        source=paths.moses_text.at(split="train", language="{source}"),
        target=paths.moses_text.at(split="train", language="{target}"),
    output:
        kept_source=paths.aligned_text.at(language="{source}"),
        kept_target=paths.aligned_text.at(language="{target}"),
        alignment=paths.alignment,
    log:
        flow.log("align_words"),
    benchmark:
        flow.benchmark("align_words")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("align_words"),
    message:
        "Align the words of {wildcards.dataset}"
    shell:
        flow.command("align_words")


rule extract_phrase_table:
    input:
        source=paths.aligned_text.at(language="{source}"),
        target=paths.aligned_text.at(language="{target}"),
        alignment=paths.alignment,
    output:
        phrase_table=paths.phrase_table,
        reordering_table=paths.reordering_table,
    log:
        flow.log("extract_phrase_table"),
    benchmark:
        flow.benchmark("extract_phrase_table")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("extract_phrase_table"),
    message:
        "Extract the phrase pairs of {wildcards.dataset}"
    shell:
        flow.command("extract_phrase_table")


rule tune_moses:
    input:
        language_model=flow.of(paths.language_model, "phrase model"),
        phrase_table=flow.of(paths.phrase_table, "phrase model"),
        reordering_table=flow.of(paths.reordering_table, "phrase model"),
        source=flow.of(paths.moses_text.at(split="dev", language="{source}"), "phrase model"),
        reference=flow.of(paths.moses_text.at(split="dev", language="{target}"), "phrase model"),
    output:
        weights=paths.tuned_weights,
    log:
        flow.log("tune_moses"),
    benchmark:
        flow.benchmark("tune_moses")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("tune_moses"),
        state=paths.tuning_state,
    message:
        "Tune {wildcards.system} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        flow.command("tune_moses")


rule translate_with_moses:
    input:
        weights=flow.of(paths.tuned_weights, "tuned weights"),
        language_model=flow.of(paths.language_model, "phrase model"),
        phrase_table=flow.of(paths.phrase_table, "phrase model"),
        reordering_table=flow.of(paths.reordering_table, "phrase model"),
        source=flow.of(paths.moses_text.at(language="{source}"), "phrase model"),
    output:
        tokens=paths.translated_tokens,
        text=paths.translated_text,
    log:
        flow.log("translate_with_moses"),
    benchmark:
        flow.benchmark("translate_with_moses")
    wildcard_constraints:
        system=flow.only(flow.study.phrase_based),
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("translate_with_moses"),
    message:
        "Translate {wildcards.dataset} {wildcards.split} with {wildcards.system}, seed {wildcards.seed}"
    shell:
        flow.command("translate_with_moses")
