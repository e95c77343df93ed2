# The table and the report of a study. They read score files only. What is marked with report() is in `snakemake --report`.


report: "../workflow/report/workflow.rst"


rule make_table:
    input:
        scores=flow.every(
            "<results>/{dataset}.{source}-{target}/scores/{system}/{seed}.json",
            systems=flow.translating,
        ),
        comparisons=flow.every(
            "<results>/{dataset}.{source}-{target}/comparisons/{system}.json",
            systems=flow.challengers,
        ),
        perplexities=flow.every(
            "<results>/{dataset}.{source}-{target}/perplexities/{system}/{seed}.json",
            systems=flow.language_models,
        ),
        chunks=flow.every(
            "<results>/{dataset}.{source}-{target}/chunk_scores/{system}/{seed}.json",
            systems=flow.chunking,
        ),
        contrasts=flow.every(
            "<results>/{dataset}.{source}-{target}/contrasts/{system}/{seed}.json",
            datasets=flow.generated,
            systems=flow.translating,
        ),
    output:
        table="<results>/table.json",
        markdown=report(
            "<results>/table.md",
            caption="../workflow/report/table.rst",
            category="Results",
            labels={"result": "Table", "form": "Markdown"},
        ),
        latex=report(
            "<results>/table.tex",
            caption="../workflow/report/table.rst",
            category="Results",
            labels={"result": "Table", "form": "LaTeX"},
        ),
    log:
        "<logs>/make_table.log",
    benchmark:
        "<benchmarks>/make_table.tsv"
    conda:
        "../envs/score.yaml"
    threads: 1
    params:
        settings=flow.settings("make_table"),
        code=flow.code("make_table"),
    message:
        "Make the table"
    shell:
        "python -m phrasemt make_table"
        " --scores {input.scores}"
        " --comparisons {input.comparisons}"
        " --perplexities {input.perplexities}"
        " --chunks {input.chunks}"
        " --contrasts {input.contrasts}"
        " --table {output.table}"
        " --markdown {output.markdown}"
        " --latex {output.latex}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"


rule write_report:
    input:
        table="<results>/table.json",
        records=flow.every(
            "<results>/{dataset}.{source}-{target}/models/{system}/{seed}/training.json"
        ),
        dropped=flow.every(
            "<results>/{dataset}.{source}-{target}/corpus/{split}.dropped.tsv",
            splits="all",
        ),
        phrases=flow.phrase_statistics,
        chunks=flow.every(
            "<results>/{dataset}.{source}-{target}/chunks/{split}.json",
            datasets=flow.chunked,
            splits="all",
        ),
        annotators=flow.annotators,
    output:
        report=report(
            "<results>/report.html",
            caption="../workflow/report/page.rst",
            category="Results",
            labels={"result": "Table and figures", "form": "page"},
        ),
    log:
        "<logs>/write_report.log",
    benchmark:
        "<benchmarks>/write_report.tsv"
    conda:
        "../envs/score.yaml"
    threads: 1
    params:
        settings=flow.settings("write_report"),
        code=flow.code("write_report"),
    message:
        "Write the report"
    shell:
        "python -m phrasemt write_report"
        " --table {input.table}"
        " --records {input.records}"
        " --dropped {input.dropped}"
        " --phrases {input.phrases}"
        " --chunks {input.chunks}"
        " --annotators {input.annotators}"
        " --report {output.report}"
        " --settings {params.settings:q}"
        " --cores {threads}"
        " --log {log}"
