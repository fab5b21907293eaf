"""
Topics that predict a label
===========================

Texts with labels: job postings that are real or not, tickets by department, abstracts by field. Here they are the lines of the
descriptions that come with scikit-learn's tables, and the label is the table. `SupervisedDictionaryClassifier` with nonnegative
atoms finds topics that rebuild the texts *and* tell the labels apart; NMF finds topics first and asks about labels afterwards.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import NMF
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from colspace import SupervisedDictionaryClassifier
from colspace.displays import CoefficientsDisplay, TopicsDisplay

tables = {
    "cancer": load_breast_cancer,
    "diabetes": load_diabetes,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}
lines = [
    (line, name)
    for name, load in tables.items()
    for line in load().DESCR.splitlines()
    if len(line.split()) > 4
]
texts, labels = zip(*lines, strict=True)
print(len(texts), "lines, for example:", texts[20].strip())

# %%
# Words become TF-IDF, a sparse table, and stay sparse. ``xi="topics"`` gives the rebuilding of texts more weight than the default does.

words = TfidfVectorizer(stop_words="english", min_df=2, token_pattern="[a-z]{3,}")
X = words.fit_transform(texts)
model = SupervisedDictionaryClassifier(6, positive=True, xi="topics", random_state=0).fit(X, labels)
names = words.get_feature_names_out()
TopicsDisplay.from_estimator(model, X, names=names, n_words=9, columns=3)

# %%
# What each topic says about each label:

CoefficientsDisplay.from_estimator(model, X, names=names, n_words=2)

# %%
# Lines that were left out, read from six topics (the largest class holds this share of them):

rivals = {
    "topics that predict": SupervisedDictionaryClassifier(6, positive=True, random_state=0),
    "topics, then labels": make_pipeline(NMF(6, random_state=0, max_iter=500), LogisticRegression(C=10)),
    "all words": LogisticRegression(C=10),
}
for name, rival in rivals.items():
    scores = cross_val_score(rival, X, np.array(labels), cv=5)
    print(f"{name:22} accuracy {scores.mean():.2f}")
print(f"{'largest class':22} accuracy {max(map(labels.count, set(labels))) / len(labels):.2f}")
plt.show()
