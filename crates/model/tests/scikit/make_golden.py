"""Fits logistic regression with scikit-learn, for `../scikit.rs`: prints the numbers it compares.

    python make_golden.py        # needs scikit-learn
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

ROWS, FEATURES, PENALTY = 60, 5, 0.02

i, j = np.arange(ROWS)[:, None], np.arange(FEATURES)[None, :]
x = ((i * (j + 3) * 7 + j * 11) % 17) / 8 - 1
noise = ((i[:, 0] * 5) % 7 - 3) / 3
y = (x[:, 0] - 0.5 * x[:, 1] + 0.3 * noise > 0).astype(int)
weights = 0.5 + i[:, 0] % 4

for name, ratio, weight in [("L2", 0.0, None), ("L1", 1.0, None), ("WEIGHTED", 0.0, weights)]:
    # The sum of losses times C and the penalty, where ours is the mean of losses and the penalty.
    model = LogisticRegression(
        C=1 / (ROWS * PENALTY), l1_ratio=ratio, solver="saga", tol=1e-12, max_iter=1_000_000
    ).fit(x, y, sample_weight=weight)
    numbers = [f"{value:.6f}" for value in [*model.coef_[0], model.intercept_[0]]]
    print(f"const {name}: [f32; 6] = [{', '.join(numbers)}];")
