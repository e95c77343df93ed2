# The table and the report of a study. They read score files only. What is marked with report() is in `snakemake --report`.


report: "../workflow/report/workflow.rst"


rule make_table:
    input:
        system_scores=flow.every(paths.system_scores, systems=flow.study.translating),
        metric_scores=flow.every(paths.metric_scores, systems=flow.study.translating),
        comparison=flow.every(paths.comparison, systems=flow.challengers),
        attention_analysis=flow.every(paths.attention_analysis, systems=flow.study.forced),
        perplexity_scores=flow.every(paths.perplexity_scores, systems=flow.study.language_models),
        chunk_accuracies=flow.every(paths.chunk_accuracies, systems=flow.study.chunking),
        contrast_accuracy=flow.every(
            paths.contrast_accuracy, systems=flow.translating_by_training, splits="contrastive"
        ),
        compared_splits=flow.every(paths.compared_splits),
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
        flow.log("make_table"),
    benchmark:
        flow.benchmark("make_table")
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
        training_record=flow.every(paths.training_record, systems=flow.study.models),
        dropped_pairs=flow.every(paths.dropped_pairs, splits="all"),
        compared_splits=flow.every(paths.compared_splits),
        round_trip=flow.every(paths.round_trip, splits="all"),
        phrase_statistics=flow.every(paths.phrase_statistics, splits="train and test"),
        chunk_statistics=flow.every(paths.chunk_statistics, datasets=flow.chunked, splits="all"),
        card=flow.annotators,
        attention_analysis=flow.every(paths.attention_analysis, systems=flow.study.models),
        attention_weights=flow.every(paths.attention_weights, systems=flow.study.models, seeds="first"),
        contrast_accuracy=flow.every(
            paths.contrast_accuracy, systems=flow.translating_by_training, splits="contrastive"
        ),
        tokens=flow.every(paths.tokens),
        translated_tokens=flow.every(paths.translated_tokens, systems=flow.study.translating, seeds="first"),
        system_scores=flow.every(paths.system_scores, systems=flow.study.translating),
        subwords=flow.every(paths.subwords, datasets=flow.with_subwords),
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
        flow.log("write_report"),
    benchmark:
        flow.benchmark("write_report")
    conda:
        "../envs/score.yaml"
    params:
        **flow.params("write_report"),
    message:
        "Write the report"
    shell:
        flow.command("write_report")
