"""Tables, plots, intervals and verdicts, for experiments, benchmarks and model cards."""
