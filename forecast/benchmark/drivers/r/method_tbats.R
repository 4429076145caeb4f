# tbats with all that it chooses by default: Box-Cox, trend, damping, ARMA errors, harmonics; without the first two in
# windows of more than 5,000 values, where trying them takes minutes. Its simulated paths use the response of its
# forecasts to an innovation in the last value, on the scale of its Box-Cox transformation.
list(
  fit = function(y, seasons, previous) {
    x <- if (length(seasons)) msts(y, seasons) else y
    if (length(y) <= 5000) return(tbats(x, use.parallel = FALSE))
    tbats(x, use.box.cox = FALSE, use.trend = FALSE, use.parallel = FALSE)
  },
  apply = function(model, y, seasons) {
    again <- function(y) tbats(if (length(seasons)) msts(y, seasons) else y, model = model)
    list(model = again(y), again = again, y = y)
  },
  predict = function(state, h, job) {
    lambda <- state$model$lambda
    forward <- function(x) if (is.null(lambda)) x else BoxCox(x, lambda)
    back <- function(x) if (is.null(lambda)) x else matrix(InvBoxCox(x, lambda), nrow(x))
    f <- forecast(state$model, h = h, level = levels_of(job$quantiles))
    sd <- sqrt(state$model$variance)
    n <- length(state$y)
    moved <- state$y
    moved[n] <- if (is.null(lambda)) moved[n] + sd else InvBoxCox(BoxCox(moved[n], lambda) + sd, lambda)
    g <- forecast(state$again(moved), h = h, level = 80)
    response <- (forward(as.numeric(g$mean)) - forward(as.numeric(f$mean))) / sd
    response[!is.finite(response)] <- 0  # a forecast of zero has no place on a logarithmic scale
    paths <- back(gaussian_paths(forward(as.numeric(f$mean)), c(1, response[-h]), sd, job$paths))
    list(mean = f$mean, own = own_quantiles(f, job$quantiles), paths = paths)
  }
)
