"""Supervised dictionary learning: atoms that rebuild a table and predict its labels."""

from ._classifier import SupervisedDictionaryClassifier
from ._cv import SupervisedDictionaryClassifierCV, SupervisedDictionaryRegressorCV
from ._losses import Multinomial
from ._regions import Radius
from ._regressor import SupervisedDictionaryRegressor
from ._setup import XiPath

__all__ = [
    "Multinomial",
    "Radius",
    "SupervisedDictionaryClassifier",
    "SupervisedDictionaryClassifierCV",
    "SupervisedDictionaryRegressor",
    "SupervisedDictionaryRegressorCV",
    "XiPath",
]
