# Forecasts one series from given origins with methods of R's forecast package.
#
#   Rscript main.R FOLDER method,method,... key=value...
#
# FOLDER holds series.csv (one value a line, an empty line is missing) and origins.csv (origin,horizon; an origin is the
# index, from 0, of the last value that may be used). For each method FOLDER/<method>.csv is written: lines that begin with
# "#" say how it went, then one row of quantiles per origin, interval, and step or peak. Keys: see the job list below.
suppressPackageStartupMessages(library(forecast))

arguments <- commandArgs(trailingOnly = TRUE)
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(here, "rolling.R"))

pairs <- strsplit(arguments[-(1:2)], "=", fixed = TRUE)
given <- setNames(lapply(pairs, function(p) as.numeric(strsplit(p[2], ",", fixed = TRUE)[[1]])), sapply(pairs, `[`, 1))
job <- list(
  folder = arguments[1],
  y = as.numeric(readLines(file.path(arguments[1], "series.csv"))),
  origins = read.csv(file.path(arguments[1], "origins.csv")),
  quantiles = given$quantiles,
  short = given$short, long = given$long,  # horizons, in steps
  day = given$day, week = given$week,      # seasons, in steps; day is 0 where the step is no part of it
  window = given$window,                   # the most steps that a method sees
  paths = given$paths, seed = given$seed,
  limit = given$limit                      # CPU seconds that one fit may take
)
for (name in strsplit(arguments[2], ",", fixed = TRUE)[[1]]) {
  refit <- given[[paste0("refit.", name)]]  # steps between fits
  method <- source(file.path(here, paste0("method_", name, ".R")))$value
  set.seed(job$seed)
  roll(job, name, method, refit)
}
