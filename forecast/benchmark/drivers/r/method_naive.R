# naive: the last value.
list(
  fit = function(y, seasons, previous) list(),
  apply = function(model, y, seasons) y,
  predict = function(y, h, job) {
    f <- naive(y, h = h, level = levels_of(job$quantiles))
    sd <- sqrt(mean(f$residuals^2, na.rm = TRUE))
    list(mean = f$mean, own = own_quantiles(f, job$quantiles), paths = gaussian_paths(f$mean, rep(1, h), sd, job$paths))
  }
)
