# stlm with ets on what is left without the seasons (multiple-season STL). Re-applied, the decomposition is of the new
# window and the parameters of ets stay.
list(
  fit = function(y, seasons, previous) {
    if (length(seasons) == 0) stop("history shorter than two days")
    stlm(msts(y, seasons), method = "ets")
  },
  apply = function(model, y, seasons) stlm(msts(y, seasons), model = model),
  predict = function(state, h, job) {
    f <- forecast(state, h = h, level = levels_of(job$quantiles))
    season <- as.numeric(f$mean) - as.numeric(forecast(state$model, h = h, level = 80)$mean)
    rest <- matrix(t(replicate(job$paths, as.numeric(simulate(state$model, nsim = h)))), job$paths, h)
    list(mean = f$mean, own = own_quantiles(f, job$quantiles), paths = sweep(rest, 2, season, "+"))
  }
)
