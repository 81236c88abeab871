"""Tables, plots, intervals, verdicts and times: what experiments, bench and model cards report with."""
