"""UnobservedComponents: local level, a first-order autoregression, and four stochastic harmonics of the day where the
history has two days."""
import numpy as np
from statsmodels.tsa.statespace.structural import UnobservedComponents

import rolling


def fit(y, job, previous):
    seasons = [{"period": job.day, "harmonics": 4}] if job.day > 8 and len(y) >= 2 * job.day else None
    model = UnobservedComponents(y, level="local level", freq_seasonal=seasons, autoregressive=1)
    return model.fit(disp=False, maxiter=50, start_params=previous.params if previous is not None and
                     len(previous.params) == model.k_params else None)


def apply(model, y, job):
    return model.apply(y)


def predict(state, h, job):
    forecast = state.get_forecast(h)
    mean = np.asarray(forecast.predicted_mean)
    own = rolling.interval_quantiles(mean, lambda alpha: forecast.conf_int(alpha=alpha), job.quantiles)
    paths = np.asarray(state.simulate(h, anchor="end", repetitions=job.paths)).reshape(h, job.paths).T
    return mean, own, paths
