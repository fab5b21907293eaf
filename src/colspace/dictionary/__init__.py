"""Supervised dictionary learning: atoms that rebuild a table and predict its labels."""

from ._base import XiPath
from ._classifier import SupervisedDictionaryClassifier
from ._classifier_cv import SupervisedDictionaryClassifierCV
from ._losses import Multinomial
from ._regions import Radius
from ._regressor import SupervisedDictionaryRegressor

__all__ = [
    "Multinomial",
    "Radius",
    "SupervisedDictionaryClassifier",
    "SupervisedDictionaryClassifierCV",
    "SupervisedDictionaryRegressor",
    "XiPath",
]
