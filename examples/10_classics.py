"""
The classics side by side
=========================

Sliced inverse regression looks at means, sliced average variance estimation at variances, principal Hessian directions at curvature.
All are in the library, on the same moments and with the same inputs. Which direction does each find?
"""

import matplotlib.pyplot as plt
import numpy as np

from colspace import JointReduction, PrincipalHessian, SlicedAverage, SlicedInverse
from colspace.metrics import subspace_distance

rng = np.random.default_rng(0)
X = rng.standard_normal((1000, 10))
truth = np.zeros((10, 1))
truth[:2, 0] = [0.8, 0.6]
u = X @ truth[:, 0]
links = {"monotone: tanh 2u": np.tanh(2 * u), "even: u²": u**2, "wave: sin 2u": np.sin(2 * u)}
methods = {
    "SIR": SlicedInverse(1),
    "SAVE": SlicedAverage(1),
    "pHd": PrincipalHessian(1),
    "joint reduction": JointReduction(1),
}

# %%
# Above each picture stands the distance of the direction found from the true one: 0 is the same, 1 is a right angle. A method that
# finds it shows the link as a curve.

fig, axes = plt.subplots(3, 4, figsize=(10, 6.6), layout="constrained", sharey="row")
for row, (title, link) in zip(axes, links.items(), strict=True):
    y = link / link.std() + 0.3 * rng.standard_normal(1000)
    row[0].set_ylabel(title)
    for ax, (name, method) in zip(row, methods.items(), strict=True):
        direction = method.fit(X, y).components_.T
        distance = subspace_distance(truth, direction)
        ax.scatter(X @ direction[:, 0], y, s=4, alpha=0.5, color="#0072B2" if distance < 0.3 else "#999999")
        ax.set_title(f"{name}: {distance:.2f}", fontsize="medium")
        ax.set_xticks([])
        ax.set_yticks([])
plt.show()
