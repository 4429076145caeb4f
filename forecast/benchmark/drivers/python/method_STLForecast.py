"""STLForecast with a season of a day and ARIMA on what is left. The order is the one of least AIC among a few, chosen at
the first fit; (1,1,1) in windows of more than 5,000 values. Re-applied, the decomposition is of the new window and order
and coefficients stay, as STLForecast itself would combine them."""
import types

import numpy as np
from statsmodels.tsa.arima.model import ARIMA
from statsmodels.tsa.forecasting.stl import STLForecast
from statsmodels.tsa.seasonal import STL

import rolling

ORDERS = [(1, 0, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1), (2, 1, 2)]


def fit(y, job, previous):
    if not (job.day > 1 and len(y) >= 2 * job.day):
        raise ValueError("history shorter than two days")
    orders = [previous.order] if previous else [(1, 1, 1)] if len(y) > 5000 else ORDERS
    best = None
    for order in orders:
        result = STLForecast(y, ARIMA, model_kwargs={"order": order}, period=job.day).fit()
        if best is None or result.model_result.aic < best.result.aic:
            best = types.SimpleNamespace(order=order, result=result.model_result)
    return best


def apply(model, y, job):
    season = STL(y, period=job.day).fit().seasonal
    return types.SimpleNamespace(result=model.result.apply(y - season), season=np.asarray(season)[-job.day:])


def predict(state, h, job):
    ahead = np.resize(state.season, h)
    forecast = state.result.get_forecast(h)
    mean = np.asarray(forecast.predicted_mean) + ahead
    own = rolling.interval_quantiles(mean, lambda alpha: np.asarray(forecast.conf_int(alpha=alpha)) + ahead[:, None],
                                     job.quantiles)
    paths = np.asarray(state.result.simulate(h, anchor="end", repetitions=job.paths)).reshape(h, job.paths).T
    return mean, own, paths + ahead
