# The rolling evaluation that every method shares.
#
# A method is a list of
#   fit(y, seasons, previous)  a model with its parameters, previous being the one of the fit before or NULL; an error when
#                              it cannot be used here
#   apply(model, y, seasons)   the model with the same parameters, on values that begin where those of the fit began, so
#                              that its seasonal states keep their phase
#   predict(state, h, job)     list(mean, own, paths): h point forecasts; an h x quantiles matrix of its own prediction
#                              intervals and a paths x h matrix simulated from it, or NULL where it has none

# fill replaces gaps inside a window by straight lines, and by the nearest value at its ends.
fill <- function(y) {
  known <- which(is.finite(y))
  if (length(known) < 2) stop("fewer than two known values")
  approx(known, y[known], seq_along(y), rule = 2)$y
}

# seasons_in returns the seasons of which n steps hold two at least.
seasons_in <- function(n, job) {
  s <- c(job$day, job$week)
  s[s > 1 & n >= 2 * s]
}

# limited evaluates an expression under a limit of CPU time. R looks at the clock between its own operations.
limited <- function(seconds, expression) {
  setTimeLimit(cpu = seconds, transient = TRUE)
  on.exit(setTimeLimit())
  force(expression)
}

cpu <- function() sum(proc.time()[c("user.self", "sys.self")])

# own_quantiles reads quantiles from a forecast object that was made with levels_of(quantiles).
levels_of <- function(quantiles) sort(unique(round(100 * abs(2 * quantiles[quantiles != 0.5] - 1), 6)))
own_quantiles <- function(f, quantiles) {
  level <- round(100 * abs(2 * quantiles - 1), 6)
  sapply(seq_along(quantiles), function(j) {
    column <- match(level[j], round(f$level, 6))
    if (quantiles[j] == 0.5) f$mean else if (quantiles[j] < 0.5) f$lower[, column] else f$upper[, column]
  })
}

# gaussian_paths simulates a linear model with Gaussian innovations: mean[k] + sum over j of response[j] * e[k-j], where
# response[1] is 1 and response[j+1] is how far an innovation moves the value j steps later.
gaussian_paths <- function(mean, response, sd, n) {
  h <- length(mean)
  e <- matrix(rnorm(n * h, 0, sd), n, h)
  weights <- outer(1:h, 1:h, function(i, k) ifelse(k >= i, response[pmax(k - i, 0) + 1], 0))
  sweep(e %*% weights, 2, mean, "+")
}

# residual_quantiles returns the quantiles of each step and of the peak over its first steps, from the forecast and the
# errors (one row an origin) of the same method at earlier origins. NULL with fewer than five.
residual_quantiles <- function(mean, errors, quantiles, peak_steps) {
  h <- length(mean)
  if (nrow(errors) < 5) return(NULL)
  paths <- sweep(errors[, 1:h, drop = FALSE], 2, mean, "+")
  list(steps = path_quantiles(paths, quantiles), peaks = peak_quantiles(paths, quantiles, peak_steps))
}

path_quantiles <- function(paths, quantiles) {
  t(apply(paths, 2, function(x) if (all(is.na(x))) rep(NA, length(quantiles)) else
    quantile(x, quantiles, na.rm = TRUE, type = 6)))
}

# peak_quantiles has one row per horizon of steps; a path that is not known throughout does not count.
peak_quantiles <- function(paths, quantiles, steps) {
  t(sapply(steps, function(h) {
    peaks <- apply(paths[, 1:h, drop = FALSE], 1, max)
    peaks <- peaks[is.finite(peaks)]
    if (length(peaks) == 0) rep(NA, length(quantiles)) else quantile(peaks, quantiles, type = 6)
  }))
}

# roll runs one method over all origins and writes its file.
roll <- function(job, name, method, refit) {
  out <- file(file.path(job$folder, paste0(name, ".csv")), "w")
  on.exit(close(out))
  r <- new.env()
  r$fits <- 0; r$fit_cpu <- 0; r$apply_cpu <- 0; r$applied <- 0; r$notes <- character(0); r$model <- NULL; r$rows <- character(0)
  origins <- job$origins$origin + 1
  status <- tryCatch({ refit_at(r, job, method, origins[1]); "ok" }, error = function(e) conditionMessage(e))
  if (status == "ok") {
    calibrate(r, job, method, origins[1])
    for (i in seq_along(origins)) {
      if (origins[i] - r$fitted_at >= refit) {
        tryCatch(refit_at(r, job, method, origins[i]), error = function(e)
          note(r, sprintf("refit at %d: %s; the older parameters stay", origins[i] - 1, conditionMessage(e))))
      }
      tryCatch(forecast_at(r, job, method, origins[i], job$origins$horizon[i]), error = function(e)
        note(r, sprintf("origin %d: %s", origins[i] - 1, conditionMessage(e))))
    }
  }
  clean <- function(s) gsub("[\r\n]+", " ", s)
  writeLines(c(paste0("#status: ", clean(status)), paste0("#fits: ", r$fits), sprintf("#fit_seconds: %.3f", r$fit_cpu),
    paste0("#applied: ", r$applied), sprintf("#apply_seconds: %.3f", r$apply_cpu),
    if (length(r$notes)) paste0("#note: ", clean(r$notes)),
    paste(c("origin", "interval", "kind", "step", paste0("q", job$quantiles)), collapse = ","), r$rows), out)
}

note <- function(r, text) r$notes <- c(r$notes, text)

# refit_at fits anew on the window that ends at o.
refit_at <- function(r, job, method, o) {
  begin <- cpu()
  on.exit(r$fit_cpu <- r$fit_cpu + cpu() - begin)
  start <- max(1, o - job$window + 1)
  y <- fill(job$y[start:o])
  seasons <- seasons_in(length(y), job)
  r$fits <- r$fits + 1
  model <- limited(job$limit, method$fit(y, seasons, r$model))
  r$model <- model; r$start <- start; r$seasons <- seasons; r$fitted_at <- o
}

predict_at <- function(r, job, method, o, h) {
  begin <- cpu()
  on.exit({ r$apply_cpu <- r$apply_cpu + cpu() - begin; r$applied <- r$applied + 1 })
  y <- fill(job$y[r$start:o])
  limited(job$limit, method$predict(method$apply(r$model, y, r$seasons), h, job))
}

# calibrate collects the errors of forecasts made inside the first window, so that there are some at the first origin.
calibrate <- function(r, job, method, first) {
  r$errors <- matrix(NA_real_, 0, job$long)
  r$error_origins <- numeric(0)
  from <- max(r$start + floor((first - r$start) / 2), r$start + 2 * max(0, r$seasons), r$start + 10)
  if (from >= first - job$long) from <- r$start + floor((first - r$start) / 2)
  to <- first - job$long
  if (from > to) return()
  for (o in unique(round(seq(from, to, length.out = 20)))) {
    tryCatch(remember(r, job, o, predict_at(r, job, method, o, job$long)$mean), error = function(e) NULL)
  }
}

remember <- function(r, job, o, mean) {
  error <- rep(NA_real_, job$long)
  error[seq_along(mean)] <- job$y[o + seq_along(mean)] - mean
  r$errors <- rbind(r$errors, error)
  r$error_origins <- c(r$error_origins, o)
}

forecast_at <- function(r, job, method, o, h) {
  p <- predict_at(r, job, method, o, h)
  p$mean <- as.numeric(p$mean)
  peak_steps <- c(job$short, job$long)[c(job$short, job$long) <= h]
  low <- if (min(job$y[1:o], na.rm = TRUE) >= 0) 0 else -Inf  # demand that was never negative does not become so
  emit <- function(interval, kind, steps, q) {
    r$rows <- c(r$rows, sprintf("%d,%s,%s,%d,%s", o - 1, interval, kind, steps,
      apply(pmax(q, low), 1, function(x) paste(sprintf("%.9g", x), collapse = ","))))
  }
  if (!is.null(p$own)) {
    emit("own", "step", 1:h, matrix(p$own, nrow = h))
    emit("own", "peak", peak_steps, peak_quantiles(p$paths, job$quantiles, peak_steps))
  }
  # Only errors that were known at o: their whole horizon had passed.
  known <- tail(which(r$error_origins + job$long <= o), 100)
  q <- residual_quantiles(p$mean, r$errors[known, , drop = FALSE], job$quantiles, peak_steps)
  if (!is.null(q)) {
    emit("residual", "step", 1:h, q$steps)
    emit("residual", "peak", peak_steps, q$peaks)
  }
  remember(r, job, o, p$mean)  # looked at only from o + long on, see known
}

# harmonics returns sine and cosine columns of each season's first k harmonics at the given times.
harmonics <- function(seasons, k, times) {
  columns <- list()
  for (i in seq_along(seasons)) for (j in seq_len(k[i])) {
    angle <- 2 * pi * j * times / seasons[i]
    columns[[sprintf("S%d_%d", j, round(seasons[i]))]] <- sin(angle)
    columns[[sprintf("C%d_%d", j, round(seasons[i]))]] <- cos(angle)
  }
  do.call(cbind, columns)
}

# arima_response returns how far one innovation of a non-seasonal ARIMA moves the present value and the h-1 later ones.
arima_response <- function(fit, h) {
  if (h == 1) return(1)
  ar <- c(1, -fit$model$phi)
  for (d in seq_len(arimaorder(fit)[["d"]])) ar <- c(ar, 0) - c(0, ar)
  c(1, ARMAtoMA(ar = -ar[-1], ma = fit$model$theta, lag.max = h - 1))
}
