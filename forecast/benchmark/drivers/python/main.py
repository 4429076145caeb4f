"""Forecasts one series from given origins with methods of statsmodels.

    python3 main.py FOLDER method,method,... key=value...

Reads and writes the same files as the R driver; see main.R.
"""
import importlib
import sys
import types
import warnings

import numpy as np

import rolling

warnings.simplefilter("ignore")


def numbers(text):
    return [float(x) for x in text.split(",")]


folder, names = sys.argv[1], sys.argv[2].split(",")
given = dict(pair.split("=", 1) for pair in sys.argv[3:])
with open(folder + "/series.csv") as f:
    values = np.array([float(line) if line.strip() else np.nan for line in f])
origins = np.loadtxt(folder + "/origins.csv", delimiter=",", skiprows=1, dtype=int, ndmin=2)
job = types.SimpleNamespace(
    folder=folder, y=values, origins=origins, quantiles=np.array(numbers(given["quantiles"])),
    short=int(given["short"]), long=int(given["long"]),  # horizons, in steps
    day=int(given["day"]), week=int(given["week"]),      # seasons, in steps; 0 where the step is no part of it
    window=int(given["window"]),                         # the most steps that a method sees
    paths=int(given["paths"]), seed=int(given["seed"]),
    limit=float(given["limit"]))                         # CPU seconds that one fit may take
for name in names:
    np.random.seed(job.seed)
    rolling.roll(job, name, importlib.import_module("method_" + name), int(given["refit." + name]))
