"""The commands for people: a module for each, with `add_arguments` and `run`, which is imported when it is called."""

# What `phrasemt --help` says of each, in the order of its list. A line has room for 66 characters.
GROUPS = {
    "make and look at a study": {
        "init": "write a commented study for your own texts",
        "check": "check study files without running anything",
        "run": "run a study with Snakemake, in this folder",
        "plan": "show which jobs the next run has, why, and what they cost",
        "status": "show the jobs and trainings of the last run, and its expected end",
        "show": "print the results table; write the figures as SVG files",
        "compare": "compare systems of one or two studies: settings, scores, sentences",
        "papers": "list what the papers print, and what a study knows of it",
        "scale": "write a study at a smaller size",
    },
    "use a model": {
        "translate": "translate raw text",
        "score": "score translations of any origin, and compare two files",
        "force": "log-probabilities and attention of given translations",
        "ratings": "make blind sheets for human evaluation; score filled sheets",
        "export": "put a trained system into one folder for other machines",
    },
    "look inside": {
        "describe": "show layers, parameters and multiply-adds of a system",
        "trace": "show one sentence pair after each stage, with parse and phrases",
        "corpora": "list the corpora that a study can name, or show one",
    },
    "maintenance": {
        "capsule": "pack a table with all that its numbers come from; check a pack",
        "gc": "list and remove what no study names any more",
        "slurm": "write the profile of your site, apart from what updates touch",
        "unlock": "remove the lock of a killed run",
    },
}
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}
# What `phrasemt COMMAND --help` ends with.
EXAMPLES = {
    "init": (
        "mine.yaml --train train.en train.de --test test.en test.de",
        "mine.yaml --train a b --test c d --languages en de",
    ),
    "check": ("mine.yaml", "studies/multi30k.yaml mine.yaml --json"),
    "run": ("mine.yaml --cores 2", "studies/xu2020-en-de.yaml --profile slurm"),
    "plan": ("mine.yaml", "studies/xu2020-en-de.yaml --gpus 8 --gpu-model a100"),
    "status": ("mine.yaml --watch", "mine --json"),
    "show": ("mine.yaml", "mine.yaml --figures figures"),
    "compare": ("base pr --study mine.yaml", "one.yaml:base two.yaml:base --sentences 10"),
    "papers": ("xu2020", "xu2020 --study mine.yaml"),
    "scale": ("studies/xu2020-en-de.yaml micro --output micro.yaml", "mine.yaml rehearsal"),
    "translate": ("text.en --study mine.yaml --system pr", "text.en --model FOLDER --output text.de"),
    "score": ("out.de --references ref.de --language de", "one.de two.de --references ref.de --language de"),
    "force": ("text.en text.de --study mine.yaml --system pr", "text.en text.de --model FOLDER --json"),
    "ratings": ("make sheets --study mine.yaml --sentences 50", "score sheets"),
    "export": ("FOLDER --study mine.yaml --system pr", "FOLDER --system base --format ctranslate2"),
    "describe": ("mine.yaml --system pr", "studies/xu2020-en-de.yaml"),
    "trace": ("test:17 --study mine.yaml", "test:17 --system pr"),
    "corpora": ("wmt14", "--study mine.yaml"),
    "capsule": ("mine.yaml --output mine.zip", "--check mine.zip"),
    "gc": ("mine.yaml", "mine.yaml --yes"),
    "slurm": ("", "&& phrasemt run mine.yaml --profile slurm"),
    "unlock": ("", "--cancel"),
}
