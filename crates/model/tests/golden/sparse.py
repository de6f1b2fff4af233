"""Sparse logistic regression in numpy: the reference that tests/sparse.rs holds the crate to.

    python sparse.py > sparse.txt

The rows look like those of the a9a set: 14 fields of a few values each, one of 123 binary
features for each field, a few fields missing, about a quarter of the rows of class 1. All sums
are in double precision, over all parameters at every step, and nothing is lazy, so that what
differs is the crate's way of doing it and its rounding.

The file has lines of words: `row LABEL FEATURE...`, and for each optimizer `case NAME`, `losses`
(of every tenth step) and `params` (the weights and the bias at the end).
"""

import numpy as np

FIELDS = [5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41]
FEATURES = sum(FIELDS)
# A batch of a power of two: where gradients cancel at the all-zero start, they then cancel in
# floats too. AdaGrad would make a whole step of what rounding leaves.
ROWS, BATCH, STEPS = 500, 16, 400


def make(rng):
    """A row of zeros and ones for each example, and its class."""
    inputs = np.zeros((ROWS, FEATURES))
    truth = rng.normal(0.0, 0.7, FEATURES)
    first = 0
    for size in FIELDS:
        shares = 1.0 / np.arange(1, size + 1)
        chosen = rng.choice(size, ROWS, p=shares / shares.sum())
        there = rng.random(ROWS) > 0.02
        inputs[there, first + chosen[there]] = 1.0
        first += size
    scores = inputs @ truth
    scores += np.log(1 / 3) - np.median(scores)
    return inputs, (rng.random(ROWS) < 1 / (1 + np.exp(-scores))).astype(int)


class Sgd:
    """Plain, with decay of the weights but not of the bias."""

    def __init__(self, rate, decay):
        self.rate, self.decay = rate, np.append(np.full(FEATURES, decay), 0.0)

    def step(self, params, grad):
        return params - self.rate * (grad + self.decay * params)


class AdaGrad:
    def __init__(self, rate, epsilon):
        self.rate, self.epsilon, self.sum = rate, epsilon, np.zeros(FEATURES + 1)

    def step(self, params, grad):
        self.sum += grad * grad
        return params - self.rate * grad / (np.sqrt(self.sum) + self.epsilon)


class Ftrl:
    """Algorithm 1 of McMahan et al. 2013, for all parameters."""

    def __init__(self, alpha, beta, l1, l2):
        self.alpha, self.beta, self.l1, self.l2 = alpha, beta, l1, l2
        self.z, self.n = np.zeros(FEATURES + 1), np.zeros(FEATURES + 1)

    def step(self, params, grad):
        sigma = (np.sqrt(self.n + grad * grad) - np.sqrt(self.n)) / self.alpha
        self.z += grad - sigma * params
        self.n += grad * grad
        stiffness = (self.beta + np.sqrt(self.n)) / self.alpha + self.l2
        moved = -(self.z - np.sign(self.z) * self.l1) / stiffness
        return np.where(np.abs(self.z) <= self.l1, 0.0, moved)


def train(inputs, labels, optimizer):
    params, losses = np.zeros(FEATURES + 1), []
    for step in range(STEPS):
        taken = np.arange(step * BATCH, (step + 1) * BATCH) % ROWS
        x, y = np.append(inputs[taken], np.ones((BATCH, 1)), axis=1), labels[taken]
        scores = x @ params
        losses.append(np.mean(np.logaddexp(0.0, scores) - y * scores))
        grad = x.T @ (1 / (1 + np.exp(-scores)) - y) / BATCH
        params = optimizer.step(params, grad)
    return params, losses[::10]


def main():
    inputs, labels = make(np.random.default_rng(1))
    for row, label in zip(inputs, labels):
        print("row", label, *np.flatnonzero(row))
    cases = {
        "sgd": Sgd(0.5, 0.0),
        "sgd-decay": Sgd(0.5, 0.01),
        "adagrad": AdaGrad(0.2, 1e-8),
        "ftrl": Ftrl(0.5, 1.0, 0.5, 0.1),
    }
    for name, optimizer in cases.items():
        params, losses = train(inputs, labels, optimizer)
        print("case", name)
        print("losses", *(f"{loss:.9f}" for loss in losses))
        print("params", *(f"{value:.9f}" for value in params))


if __name__ == "__main__":
    main()
