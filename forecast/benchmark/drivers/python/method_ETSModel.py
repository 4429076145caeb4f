"""ETSModel: additive error, damped trend, and an additive season of a day if that lowers AIC at the first fit; not tried
where the day has more than 144 steps, whose states would fill the memory, or the history less than two days."""
import types

import numpy as np
from statsmodels.tsa.exponential_smoothing.ets import ETSModel

import rolling

SEASON_MAX = 144


def model_on(y, job, seasonal):
    return ETSModel(y, error="add", trend="add", damped_trend=True, seasonal="add" if seasonal else None,
                    seasonal_periods=job.day if seasonal else None, initialization_method="heuristic")


def fit(y, job, previous):
    if previous is not None:
        choices = [previous.seasonal]
    else:
        choices = [False, True] if 1 < job.day <= SEASON_MAX and len(y) >= 2 * job.day else [False]
    results = [(model_on(y, job, seasonal).fit(disp=False), seasonal) for seasonal in choices]
    result, seasonal = min(results, key=lambda r: r[0].aic)
    return types.SimpleNamespace(params=result.params, seasonal=seasonal)


def apply(model, y, job):
    return model_on(y, job, model.seasonal).smooth(model.params)


def predict(state, h, job):
    n = state.nobs
    p = state.get_prediction(start=n, end=n + h - 1)
    mean = np.asarray(p.predicted_mean)
    own = rolling.interval_quantiles(mean, lambda alpha: p.pred_int(alpha=alpha), job.quantiles)
    paths = np.asarray(state.simulate(h, anchor="end", repetitions=job.paths)).reshape(h, job.paths).T
    return mean, own, paths
