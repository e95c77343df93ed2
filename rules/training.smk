# One system on one data set with one seed; then the average of its checkpoints.


rule train_model:
    input:
        # A training waits for this file, does not read it, and does not run again when it changes.
        ancient(paths.compared_splits),
        train=paths.examples.at(split="train"),
        dev=paths.examples.at(split="dev"),
        dev_reference=paths.tokens.at(split="dev", language="{target}"),
        source_vocabulary=paths.vocabulary.at(language="{source}"),
        target_vocabulary=paths.vocabulary.at(language="{target}"),
        train_phrases=flow.of(paths.phrase_columns, "phrases", split="train"),
        dev_phrases=flow.of(paths.phrase_columns, "phrases", split="dev"),
        train_chunks=flow.of(paths.chunk_columns, "chunks", split="train"),
        dev_chunks=flow.of(paths.chunk_columns, "chunks", split="dev"),
        initial_weights=flow.files("train_model", "initial_weights"),
    output:
        record=paths.training_record,
    log:
        flow.log("train_model"),
    benchmark:
        flow.benchmark("train_model")
    priority: flow.priority
    conda:
        "../envs/torch.yaml"
    threads: 4
    resources:
        nodes=1,  # over which the processes are distributed; more than one in a Slurm job only
        processes=1,  # that train one model together; as many as GPUs
        minutes=0,  # after which training saves and leaves, to be run again; 0: never
    params:
        **flow.params("train_model"),
        state=flow.place(paths.training_state),
    message:
        "Train {wildcards.system} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        flow.command("train_model")


rule average_checkpoints:
    input:
        record=paths.training_record,
        dev=paths.examples.at(split="dev"),
        dev_reference=paths.tokens.at(split="dev", language="{target}"),
        source_vocabulary=paths.vocabulary.at(language="{source}"),
        target_vocabulary=paths.vocabulary.at(language="{target}"),
        dev_phrases=flow.of(paths.phrase_columns, "phrases", split="dev"),
        dev_chunks=flow.of(paths.chunk_columns, "chunks", split="dev"),
    output:
        weights=paths.weights,
        scores=paths.average_scores,
    log:
        flow.log("average_checkpoints"),
    benchmark:
        flow.benchmark("average_checkpoints")
    conda:
        "../envs/torch.yaml"
    threads: flow.cores(4)
    params:
        **flow.params("average_checkpoints"),
    message:
        "Average the checkpoints of {wildcards.system} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        flow.command("average_checkpoints")
