# auto.arima with Fourier terms of the seasons as regressors. The number of harmonics of the day is the one of 3 and 10
# with the lesser AICc, chosen at the first fit; 6 without a choice in windows of more than 5,000 values, where a fit takes
# tens of seconds; three for the week. Terms are of the index from the start of the window, which a fit and its
# re-applications share.
list(
  fit = function(y, seasons, previous) {
    if (length(seasons) == 0) return(list(fit = auto.arima(y, seasonal = FALSE), k = NULL))
    candidates <- if (!is.null(previous$k)) previous$k[1] else if (length(y) > 5000) 6 else c(3, 10)
    best <- NULL
    for (k in candidates) {
      k_all <- c(k, 3)[seq_along(seasons)]
      fit <- auto.arima(y, xreg = harmonics(seasons, k_all, seq_along(y)), seasonal = FALSE)
      if (is.null(best) || fit$aicc < best$fit$aicc) best <- list(fit = fit, k = k_all)
    }
    best
  },
  apply = function(model, y, seasons) {
    n <- length(y)
    if (is.null(model$k)) return(list(fit = Arima(y, model = model$fit), xreg = function(h) NULL))
    list(fit = Arima(y, model = model$fit, xreg = harmonics(seasons, model$k, seq_len(n))),
      xreg = function(h) harmonics(seasons, model$k, n + seq_len(h)))
  },
  predict = function(state, h, job) {
    f <- forecast(state$fit, h = h, xreg = state$xreg(h), level = levels_of(job$quantiles))
    paths <- gaussian_paths(as.numeric(f$mean), arima_response(state$fit, h), sqrt(state$fit$sigma2), job$paths)
    list(mean = f$mean, own = own_quantiles(f, job$quantiles), paths = paths)
  }
)
