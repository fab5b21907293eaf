"""
Parts of images that predict
============================

Eight atoms for threes, fives and eights. Nonnegative matrix factorisation finds parts that rebuild the images; a supervised dictionary
finds parts that rebuild them and tell the digits apart. How much of the one is given for the other is a number, xi.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from colspace import SupervisedDictionaryClassifier
from colspace.displays import AtomsDisplay, ParetoDisplay

X, y = load_digits(return_X_y=True)
rows = np.isin(y, [3, 5, 8])
X, y = X[rows] / 16, y[rows]
train, test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = SupervisedDictionaryClassifier(8, positive=True, random_state=0).fit(train, y_train)
AtomsDisplay.from_estimator(model, train, columns=4)

# %%
# Accuracy and reconstruction of images that were left out, beside NMF followed by a classifier:

nmf = NMF(8, random_state=0, max_iter=1000).fit(train)
reader = LogisticRegression(C=100, max_iter=1000).fit(nmf.transform(train), y_train)
error = ((test - model.reconstruct(test)) ** 2).sum() / (test**2).sum()
plain = ((test - nmf.inverse_transform(nmf.transform(test))) ** 2).sum() / (test**2).sum()
print(f"supervised atoms  accuracy {model.score(test, y_test):.3f}  error {error:.3f}")
print(f"NMF, then labels  accuracy {reader.score(nmf.transform(test), y_test):.3f}  error {plain:.3f}")

# %%
# The trade: each point is a fit with another weight of rebuilding, judged on images left out.

path = model.xi_path(train, y_train, np.geomspace(0.003, 30, 9))
ParetoDisplay.from_path(path, test, y_test)
plt.show()
