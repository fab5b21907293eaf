"""
A folder of Parquet files
=========================

The table is larger than memory and lies in many files. A fit makes passes over chunks of rows and adds up small statistics, so nothing
but a chunk is ever held. With Dask the same code runs on the cores of a laptop or on a cluster.
"""

# %%
# Eight files of 25,000 rows each stand in for a large folder.

import tempfile
from pathlib import Path

import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from colspace import JointReduction
from colspace.datasets import make_bilinear
from colspace.displays import LoadingsDisplay

folder = Path(tempfile.mkdtemp())
columns = [f"a{j}" for j in range(10)] + [f"b{j}" for j in range(10)]
whole = make_bilinear(200_000, 10, 1, n_active=4, rng=0)
for part in range(8):
    rows = slice(25_000 * part, 25_000 * (part + 1))
    frame = pd.DataFrame(whole.X[rows], columns=columns).assign(y=whole.y[rows])
    frame.to_parquet(folder / f"part-{part}.parquet", index=False)

# %%
# As a Dask dataframe. Blocks are named by patterns of columns.

table = dd.read_parquet(folder)
blocks = {"a": "a*", "b": "b*"}
far = JointReduction(1, blocks=blocks, moments="all").fit(table[columns], table["y"])
print(f"{len(list(folder.iterdir()))} files, {table.npartitions} partitions")

# %%
# Without Dask, file by file with ``partial_fit``, which sees every row once:

one_by_one = JointReduction(1, blocks=blocks, moments="all")
for file in sorted(folder.iterdir()):
    chunk = pq.read_table(file).to_pandas()
    one_by_one.partial_fit(chunk[columns], chunk["y"])

# %%
# And all at once in memory. The three agree to rounding:

near = JointReduction(1, blocks=blocks, moments="all").fit(pd.DataFrame(whole.X, columns=columns), whole.y)
print("Dask against memory       ", np.abs(far.components_ - near.components_).max())
print("partial_fit against memory", np.abs(one_by_one.components_ - near.components_).max())

# %%
# Errors of the loadings come from the same pass.

LoadingsDisplay.from_estimator(far, n_features=8)
plt.show()
