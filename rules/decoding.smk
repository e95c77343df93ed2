# Translations by beam search and of other programs; forced decoding of contrastive pairs and of references, with the attention of the model.


rule translate_examples:
    input:
        weights=paths.weights,
        examples=paths.examples,
        source_vocabulary=paths.vocabulary.at(language="{source}"),
        target_vocabulary=paths.vocabulary.at(language="{target}"),
        phrases=flow.of(paths.phrase_columns, "phrases"),
    output:
        translations=paths.translations,
        tokens=paths.translated_tokens,
        text=paths.translated_text,
    log:
        flow.log("translate_examples"),
    benchmark:
        flow.benchmark("translate_examples")
    wildcard_constraints:
        system=flow.only(flow.study.models),
    conda:
        "../envs/torch.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("translate_examples"),
    message:
        "Translate {wildcards.dataset} {wildcards.split} with {wildcards.system}, seed {wildcards.seed}"
    shell:
        flow.command("translate_examples")


rule import_translations:
    input:
        translations=flow.files("import_translations", "translations"),
        reference=paths.clean_text.at(language="{target}"),
    output:
        tokens=paths.translated_tokens,
        text=paths.translated_text,
    log:
        flow.log("import_translations"),
    benchmark:
        flow.benchmark("import_translations")
    wildcard_constraints:
        system=flow.only(flow.study.outside),
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("import_translations"),
    message:
        "Take the translations of {wildcards.system} for {wildcards.dataset} {wildcards.split}"
    shell:
        flow.command("import_translations")


rule score_contrasts:
    input:
        weights=paths.weights,
        contrasts=paths.contrasts,
        codes=flow.of(paths.codes, "subwords"),
        source_counts=flow.of(paths.subword_counts.at(language="{source}"), "subwords"),
        target_counts=flow.of(paths.subword_counts.at(language="{target}"), "subwords"),
        source_vocabulary=paths.vocabulary.at(language="{source}"),
        target_vocabulary=paths.vocabulary.at(language="{target}"),
        phrases=flow.of(paths.phrase_columns, "phrases"),
    output:
        accuracy=paths.contrast_accuracy,
    log:
        flow.log("score_contrasts"),
    benchmark:
        flow.benchmark("score_contrasts")
    conda:
        "../envs/torch.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("score_contrasts"),
    message:
        "Let {wildcards.system}, seed {wildcards.seed}, choose between right and wrong translations of {wildcards.split}"
    shell:
        flow.command("score_contrasts")


rule score_perplexity:
    input:
        weights=paths.weights,
        examples=flow.of(paths.examples, "test sets"),
        text=flow.of(flow.text_of_models("target"), "test sets"),
        source_vocabulary=paths.vocabulary.at(language="{source}"),
        target_vocabulary=paths.vocabulary.at(language="{target}"),
    output:
        perplexity=paths.perplexity_scores,
    log:
        flow.log("score_perplexity"),
    benchmark:
        flow.benchmark("score_perplexity")
    conda:
        "../envs/torch.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("score_perplexity"),
    message:
        "Perplexity of {wildcards.system}, seed {wildcards.seed}, on the test sets of {wildcards.dataset}"
    shell:
        flow.command("score_perplexity")


rule score_chunks:
    input:
        weights=paths.weights,
        examples=flow.of(paths.examples, "test sets"),
        source_vocabulary=paths.vocabulary.at(language="{source}"),
        target_vocabulary=paths.vocabulary.at(language="{target}"),
        chunks=flow.of(paths.chunk_columns, "test sets"),
    output:
        scores=paths.chunk_accuracies,
    log:
        flow.log("score_chunks"),
    benchmark:
        flow.benchmark("score_chunks")
    conda:
        "../envs/torch.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("score_chunks"),
    message:
        "Let {wildcards.system}, seed {wildcards.seed}, decide about chunks of the test sets of {wildcards.dataset}"
    shell:
        flow.command("score_chunks")


rule analyse_attention:
    input:
        weights=paths.weights,
        examples=paths.examples,
        source_vocabulary=paths.vocabulary.at(language="{source}"),
        target_vocabulary=paths.vocabulary.at(language="{target}"),
        phrases=flow.of(paths.phrase_columns, "phrases"),
        chunks=flow.of(paths.chunk_columns, "chunks"),
    output:
        attention=paths.attention_weights,
        analysis=paths.attention_analysis,
    log:
        flow.log("analyse_attention"),
    benchmark:
        flow.benchmark("analyse_attention")
    conda:
        "../envs/torch.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("analyse_attention"),
    message:
        "Attention of {wildcards.system}, seed {wildcards.seed}, on {wildcards.dataset} {wildcards.split}"
    shell:
        flow.command("analyse_attention")
