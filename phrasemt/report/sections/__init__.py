"""The sections of the report, one module for each: it reads its artefacts and prepares what the page shows."""
