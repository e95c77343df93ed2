# Texts: fetched, your own, partitioned or generated; then checked and cleaned.


localrules:
    fetch_corpus,


rule fetch_corpus:
    output:
        file=paths.original_file,
    log:
        flow.log("fetch_corpus"),
    benchmark:
        flow.benchmark("fetch_corpus")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("fetch_corpus"),
    message:
        "Fetch {wildcards.file} of {wildcards.corpus}"
    shell:
        flow.command("fetch_corpus")


rule extract_text:
    input:
        files=flow.files("extract_text", "files"),
    output:
        text=paths.registered_text,
    log:
        flow.log("extract_text"),
    benchmark:
        flow.benchmark("extract_text")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("extract_text"),
    message:
        "Take the {wildcards.language} side of {wildcards.corpus} {wildcards.part} out of what was fetched"
    shell:
        flow.command("extract_text")


rule partition_corpus:
    input:
        source=flow.files("partition_corpus", "source"),
        target=flow.files("partition_corpus", "target"),
    output:
        train_source=paths.raw_text.at(split="train", language="{source}"),
        train_target=paths.raw_text.at(split="train", language="{target}"),
        dev_source=paths.raw_text.at(split="dev", language="{source}"),
        dev_target=paths.raw_text.at(split="dev", language="{target}"),
        test_source=paths.raw_text.at(split="test", language="{source}"),
        test_target=paths.raw_text.at(split="test", language="{target}"),
    log:
        flow.log("partition_corpus"),
    benchmark:
        flow.benchmark("partition_corpus")
    wildcard_constraints:
        dataset=flow.only(flow.partitioned),
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("partition_corpus"),
    message:
        "Cut {wildcards.dataset} into train, dev and test without shared sentences"
    shell:
        flow.command("partition_corpus")


rule generate_demo:
    output:
        # Always both sides, also for a monolingual data set, which reads one of them.
        source=paths.raw_text.at(language="en"),
        target=paths.raw_text.at(language="de"),
        trees=paths.raw_trees,
        source_chunks=paths.raw_chunks.at(language="en"),
        target_chunks=paths.raw_chunks.at(language="de"),
        contrasts=paths.contrasts,
    log:
        flow.log("generate_demo"),
    benchmark:
        flow.benchmark("generate_demo")
    wildcard_constraints:
        dataset=flow.only(flow.generated),
        split="train|dev|test",
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("generate_demo"),
    message:
        "Generate the {wildcards.split} pairs of {wildcards.dataset}"
    shell:
        flow.command("generate_demo")


rule extract_contrasts:
    input:
        files=flow.files("extract_contrasts", "files"),
    output:
        source=paths.raw_text.at(language="{source}"),
        target=paths.raw_text.at(language="{target}"),
        contrasts=paths.contrasts,
    log:
        flow.log("extract_contrasts"),
    benchmark:
        flow.benchmark("extract_contrasts")
    wildcard_constraints:
        split=flow.only(flow.contrast_sets),
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("extract_contrasts"),
    message:
        "Read the contrastive pairs {wildcards.split} of {wildcards.dataset}"
    shell:
        flow.command("extract_contrasts")


rule clean_pairs:
    input:
        raw_source=flow.files("clean_pairs", "raw_source"),
        raw_target=flow.files("clean_pairs", "raw_target"),
    output:
        source=paths.clean_text.at(language="{source}"),
        target=paths.clean_text.at(language="{target}"),
        rows=paths.rows,
        dropped=paths.dropped_pairs,
    log:
        flow.log("clean_pairs"),
    benchmark:
        flow.benchmark("clean_pairs")
    conda:
        "../envs/text.yaml"
    params:
        **flow.params("clean_pairs"),
    message:
        "Check and clean the {wildcards.split} pairs of {wildcards.dataset}"
    shell:
        flow.command("clean_pairs")
