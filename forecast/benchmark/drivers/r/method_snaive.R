# snaive: the value one day before. One day of history is enough.
list(
  fit = function(y, seasons, previous) {
    if (!(job$day > 1 && length(y) > job$day)) stop("history shorter than a day")
    list()
  },
  apply = function(model, y, seasons) ts(y, frequency = job$day),
  predict = function(y, h, job) {
    f <- snaive(y, h = h, level = levels_of(job$quantiles))
    sd <- sqrt(mean(f$residuals^2, na.rm = TRUE))
    response <- as.numeric((seq_len(h) - 1) %% job$day == 0)
    list(mean = f$mean, own = own_quantiles(f, job$quantiles), paths = gaussian_paths(f$mean, response, sd, job$paths))
  }
)
