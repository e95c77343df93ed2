# One system on one data set with one seed; then the average of its last checkpoints.


rule train_model:
    input:
        train="<results>/{dataset}.{source}-{target}/examples/train.arrow",
        dev="<results>/{dataset}.{source}-{target}/examples/dev.arrow",
        dev_reference="<results>/{dataset}.{source}-{target}/tokens/dev.{target}",
        source_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{source}.tsv",
        target_vocabulary="<results>/{dataset}.{source}-{target}/vocabulary.{target}.tsv",
        train_phrases=flow.phrases("train"),
        dev_phrases=flow.phrases("dev"),
        train_chunks=flow.chunks("train"),
        dev_chunks=flow.chunks("dev"),
    output:
        record="<results>/{dataset}.{source}-{target}/models/{system}/{seed}/training.json",
    log:
        "<logs>/train_model/{dataset}.{source}-{target}/{system}.{seed}.log",
    benchmark:
        "<benchmarks>/train_model/{dataset}.{source}-{target}/{system}.{seed}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: 4
    resources:
        nodes=1,  # over which the processes are spread; more than one in a Slurm job only
        processes=1,  # that train one model together; as many as GPUs
        minutes=0,  # after which training saves and leaves, to be run again; 0: never
    params:
        # Checkpoints are no output: Snakemake deletes outputs before a job, and with them the place to go on from.
        folder=subpath(output.record, parent=True),
        settings=flow.settings("train_model"),
        code=flow.code("train_model"),
    message:
        "Train {wildcards.system} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        # exec: a shell between would be ended by the signals that tell training to save
        "exec python -m phrasemt train_model"
        " --train {input.train}"
        " --dev {input.dev}"
        " --dev-reference {input.dev_reference}"
        " --source-vocabulary {input.source_vocabulary}"
        " --target-vocabulary {input.target_vocabulary}"
        " --train-phrases {input.train_phrases}"
        " --dev-phrases {input.dev_phrases}"
        " --train-chunks {input.train_chunks}"
        " --dev-chunks {input.dev_chunks}"
        " --record {output.record}"
        " --state {params.folder}/state"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --nodes {resources.nodes}"
        " --processes {resources.processes}"
        " --minutes {resources.minutes}"
        " --log {log}"


rule average_checkpoints:
    input:
        record="<results>/{dataset}.{source}-{target}/models/{system}/{seed}/training.json",
    output:
        weights="<results>/{dataset}.{source}-{target}/models/{system}/{seed}/averaged.safetensors",
    log:
        "<logs>/average_checkpoints/{dataset}.{source}-{target}/{system}.{seed}.log",
    benchmark:
        "<benchmarks>/average_checkpoints/{dataset}.{source}-{target}/{system}.{seed}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: 1
    params:
        settings=flow.settings("average_checkpoints"),
        code=flow.code("average_checkpoints"),
    message:
        "Average the last checkpoints of {wildcards.system} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python -m phrasemt average_checkpoints"
        " --record {input.record}"
        " --weights {output.weights}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"
