# ets: exponential smoothing without a season, which R's ets takes only up to 24 steps.
list(
  fit = function(y, seasons, previous) ets(as.numeric(y)),
  apply = function(model, y, seasons) ets(as.numeric(y), model = model, use.initial.values = TRUE),
  predict = function(state, h, job) {
    f <- forecast(state, h = h, level = levels_of(job$quantiles))
    paths <- t(replicate(job$paths, as.numeric(simulate(state, nsim = h))))
    list(mean = f$mean, own = own_quantiles(f, job$quantiles), paths = matrix(paths, job$paths, h))
  }
)
