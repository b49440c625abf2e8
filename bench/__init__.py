"""Benchmarks: the cost of Changeover as ratios measured in one run, because ratios are less noisy than times."""
