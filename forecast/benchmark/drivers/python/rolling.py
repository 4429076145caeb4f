"""The rolling evaluation that every method shares; the counterpart of rolling.R.

A method is a module with
    fit(y, job, previous)   a model with its parameters, previous being the one of the fit before or None; it raises when it
                            cannot be used here
    apply(model, y, job)    the model with the same parameters, on values that begin where those of the fit began, so that
                            its seasonal states keep their phase
    predict(state, h, job)  (mean, own, paths): h point forecasts, an h x quantiles array of its own prediction intervals,
                            and a paths x h array simulated from it
"""
import contextlib
import signal
import time

import numpy as np
import pandas as pd


class TimeLimit(Exception):
    pass


@contextlib.contextmanager
def limited(seconds):
    """Raises TimeLimit when the body has used more than so much CPU time."""
    def stop(signum, frame):
        raise TimeLimit("reached CPU time limit of %g s" % seconds)
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def fill(y):
    """Replaces gaps inside a window by straight lines, and by the nearest value at its ends. Returns a pandas Series."""
    known = np.flatnonzero(np.isfinite(y))
    if len(known) < 2:
        raise ValueError("fewer than two known values")
    return pd.Series(np.interp(np.arange(len(y)), known, y[known]))


def interval_quantiles(mean, interval, quantiles):
    """Reads quantiles from interval(alpha), an h x 2 array of the ends of the interval that misses with probability alpha."""
    columns = []
    for p in quantiles:
        if p == 0.5:
            columns.append(np.asarray(mean))
        else:
            ends = np.asarray(interval(2 * min(p, 1 - p)))
            columns.append(ends[:, 0] if p < 0.5 else ends[:, 1])
    return np.column_stack(columns)


def quantiles_of(xs, ps):
    """Quantiles at rank p(n+1), as R's type 6; NaN without values."""
    xs = xs[np.isfinite(xs)]
    if len(xs) == 0:
        return np.full(len(ps), np.nan)
    return np.quantile(xs, ps, method="weibull")


def peak_quantiles(paths, ps, steps):
    """One row per number of steps; a path that is not known throughout does not count."""
    return np.array([quantiles_of(paths[:, :h].max(axis=1), ps) for h in steps])


class Roll:
    """One method on its way through the origins."""

    def __init__(self, job, method, refit):
        self.job, self.method, self.refit = job, method, refit
        self.model, self.fitted_at, self.start = None, None, 0
        self.fits, self.applied, self.fit_seconds, self.apply_seconds = 0, 0, 0.0, 0.0
        self.notes, self.rows = [], []
        self.errors, self.error_origins = [], []

    def refit_at(self, o):
        begin = time.process_time()
        start = max(0, o - self.job.window + 1)
        y = fill(self.job.y[start:o + 1])
        self.fits += 1
        try:
            with limited(self.job.limit):
                model = self.method.fit(y, self.job, self.model)
        finally:
            self.fit_seconds += time.process_time() - begin
        self.model, self.start, self.fitted_at = model, start, o

    def predict_at(self, o, h):
        begin = time.process_time()
        y = fill(self.job.y[self.start:o + 1])
        try:
            with limited(self.job.limit):
                return self.method.predict(self.method.apply(self.model, y, self.job), h, self.job)
        finally:
            self.apply_seconds += time.process_time() - begin
            self.applied += 1

    def remember(self, o, mean):
        error = np.full(self.job.long, np.nan)
        actual = self.job.y[o + 1:o + 1 + len(mean)]
        error[:len(actual)] = actual - mean[:len(actual)]
        self.errors.append(error)
        self.error_origins.append(o)

    def calibrate(self, first):
        """Collects the errors of forecasts made inside the first window, so that there are some at the first origin."""
        job, to = self.job, first - self.job.long
        middle = self.start + (first - self.start) // 2
        begin = max([middle, self.start + 10] + [self.start + 2 * s for s in (job.day, job.week)
                                                 if 1 < s <= (first - self.start + 1) // 2])
        if begin >= to:
            begin = middle
        if begin > to:
            return
        for o in sorted(set(np.round(np.linspace(begin, to, 20)).astype(int).tolist())):
            with contextlib.suppress(Exception):
                self.remember(o, self.predict_at(o, job.long)[0])

    def forecast_at(self, o, h):
        job = self.job
        mean, own, paths = self.predict_at(o, h)
        peak_steps = [s for s in (job.short, job.long) if s <= h]
        self.emit(o, "own", "step", range(1, h + 1), own)
        self.emit(o, "own", "peak", peak_steps, peak_quantiles(paths, job.quantiles, peak_steps))
        # Only errors that were known at o: their whole horizon had passed.
        known = [e for e, at in zip(self.errors, self.error_origins) if at + job.long <= o][-100:]
        if len(known) >= 5:
            trajectories = mean + np.array(known)[:, :h]
            steps = np.array([quantiles_of(column, job.quantiles) for column in trajectories.T])
            self.emit(o, "residual", "step", range(1, h + 1), steps)
            self.emit(o, "residual", "peak", peak_steps, peak_quantiles(trajectories, job.quantiles, peak_steps))
        self.remember(o, mean)  # looked at only from o + long on, see known

    def emit(self, o, interval, kind, steps, quantiles):
        if np.nanmin(self.job.y[:o + 1]) >= 0:  # demand that was never negative does not become so
            quantiles = np.maximum(quantiles, 0)
        for step, row in zip(steps, quantiles):
            self.rows.append("%d,%s,%s,%d,%s" % (o, interval, kind, step, ",".join("%.9g" % q for q in row)))

    def run(self):
        origins = self.job.origins
        try:
            self.refit_at(int(origins[0][0]))
        except Exception as e:
            return one_line(e)
        self.calibrate(int(origins[0][0]))
        for o, h in origins.tolist():
            if o - self.fitted_at >= self.refit:
                try:
                    self.refit_at(o)
                except Exception as e:
                    self.notes.append("refit at %d: %s; the older parameters stay" % (o, one_line(e)))
            try:
                self.forecast_at(o, h)
            except Exception as e:
                self.notes.append("origin %d: %s" % (o, one_line(e)))
        return "ok"


def one_line(e):
    return " ".join(("%s: %s" % (type(e).__name__, e)).split())


def roll(job, name, method, refit):
    """Runs one method over all origins and writes its file."""
    r = Roll(job, method, refit)
    status = r.run()
    with open("%s/%s.csv" % (job.folder, name), "w") as out:
        print("#status: " + status, file=out)
        print("#fits: %d\n#fit_seconds: %.3f" % (r.fits, r.fit_seconds), file=out)
        print("#applied: %d\n#apply_seconds: %.3f" % (r.applied, r.apply_seconds), file=out)
        for note in r.notes:
            print("#note: " + note, file=out)
        print("origin,interval,kind,step," + ",".join("q%g" % p for p in job.quantiles), file=out)
        for row in r.rows:
            print(row, file=out)
