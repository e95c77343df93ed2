# The table and the report of a study. They read score files only. What is marked with report() is in `snakemake --report`.


report: "../workflow/report/workflow.rst"


rule make_table:
    input:
        scores=flow.every(paths.system_scores, systems=flow.translating),
        metrics=flow.every(paths.metric_scores, systems=flow.translating),
        comparisons=flow.every(paths.comparison, systems=flow.challengers),
        perplexities=flow.every(paths.perplexity_scores, systems=flow.language_models),
        chunks=flow.every(paths.chunk_accuracies, systems=flow.chunking),
        contrasts=flow.every(paths.contrast_accuracy, systems=flow.translating_by_training, splits="contrastive"),
        averages=flow.every(paths.average_scores, systems=flow.models),
        splits=flow.every(paths.compared_splits),
    output:
        table=paths.table,
        markdown=report(
            paths.markdown_table,
            caption="../workflow/report/table.rst",
            category="Results",
            labels={"result": "Table", "form": "Markdown"},
        ),
        latex=report(
            paths.latex_table,
            caption="../workflow/report/table.rst",
            category="Results",
            labels={"result": "Table", "form": "LaTeX"},
        ),
        csv=report(
            paths.csv_table,
            caption="../workflow/report/table.rst",
            category="Results",
            labels={"result": "Table", "form": "CSV"},
        ),
    log:
        paths.log("make_table"),
    benchmark:
        paths.benchmark("make_table")
    conda:
        "../envs/score.yaml"
    params:
        **flow.params("make_table"),
    message:
        "Make the table"
    shell:
        flow.command("make_table")


rule write_report:
    input:
        table=paths.table,
        records=flow.every(paths.training_record, systems=flow.models),
        dropped=flow.every(paths.dropped_pairs, splits="all"),
        splits=flow.every(paths.compared_splits),
        round_trips=flow.every(paths.round_trip, splits="all"),
        phrases=flow.every(paths.phrase_statistics, splits="train and test"),
        chunks=flow.every(paths.chunk_statistics, datasets=flow.chunked, splits="all"),
        annotators=flow.annotators,
        lengths=flow.every(paths.length_scores, systems=flow.translating),
        analyses=flow.every(paths.attention_analysis, systems=flow.models),
        attention=flow.every(paths.attention_weights, systems=flow.models, seeds="first"),
        contrasts=flow.every(paths.contrast_accuracy, systems=flow.translating_by_training, splits="contrastive"),
        source=flow.every(paths.tokens.at(language="{source}")),
        references=flow.every(paths.tokens.at(language="{target}")),
        translations=flow.every(paths.translated_tokens, systems=flow.translating, seeds="first"),
        scores=flow.every(paths.system_scores, systems=flow.translating, seeds="first"),
        compared=flow.every(paths.system_scores, systems=flow.translating),
        source_units=flow.every(flow.text_of_models("source")),
        target_units=flow.every(flow.text_of_models("target")),
        parses=flow.every(paths.parses, "source parses"),
        phrase_columns=flow.every(paths.phrase_columns),
        chunk_columns=flow.every(paths.chunk_columns, datasets=flow.chunked),
    output:
        report=report(
            paths.report,
            caption="../workflow/report/page.rst",
            category="Results",
            labels={"result": "Table and figures", "form": "page"},
        ),
    log:
        paths.log("write_report"),
    benchmark:
        paths.benchmark("write_report")
    conda:
        "../envs/score.yaml"
    params:
        **flow.params("write_report"),
    message:
        "Write the report"
    shell:
        flow.command("write_report")
