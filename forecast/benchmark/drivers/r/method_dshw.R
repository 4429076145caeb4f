# dshw: Taylor's double seasonal Holt-Winters, day and week. It has no prediction intervals of its own.
list(
  fit = function(y, seasons, previous) {
    if (length(seasons) < 2) stop("history shorter than two weeks")
    dshw(y, period1 = seasons[1], period2 = seasons[2], h = 1)
  },
  apply = function(model, y, seasons) list(model = model, y = y),
  predict = function(state, h, job) list(mean = as.numeric(dshw(state$y, h = h, model = state$model)$mean)[1:h])
)
