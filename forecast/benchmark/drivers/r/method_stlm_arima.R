# stlm with auto.arima on what is left without the seasons (multiple-season STL). Re-applied, the decomposition is of the
# new window and order and coefficients stay.
list(
  fit = function(y, seasons, previous) {
    if (length(seasons) == 0) stop("history shorter than two days")
    stlm(msts(y, seasons), method = "arima")
  },
  apply = function(model, y, seasons) stlm(msts(y, seasons), model = model),
  predict = function(state, h, job) {
    f <- forecast(state, h = h, level = levels_of(job$quantiles))
    response <- arima_response(state$model, h)
    paths <- gaussian_paths(as.numeric(f$mean), response, sqrt(state$model$sigma2), job$paths)
    list(mean = f$mean, own = own_quantiles(f, job$quantiles), paths = paths)
  }
)
