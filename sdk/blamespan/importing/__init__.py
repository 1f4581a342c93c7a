"""Reading of recorded runs: what an importer and a back end are, files, and the choice of runs."""
