"""Networks in PyTorch: the reference for crates/model/tests/layers.rs.

    python make_layers_golden.py > crates/model/tests/golden/layers.json

Needs torch (CPU). Parameters and examples come from a formula that the test repeats, so the file
holds only results: loss and gradient of small networks with odd sizes, in double precision,
and the losses of twenty steps of a LeNet-5 and a small AlexNet.
"""

import json
import sys

import numpy as np
import torch
from torch import nn

torch.set_default_dtype(torch.float64)


def values(count, salt):
    """Numbers from -1 to 1, exact in single precision."""
    x = np.arange(count, dtype=np.uint64) + np.uint64(salt * 1_000_003)
    x *= np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    return (x >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1.0


def conv(outputs, kernel, stride=(1, 1), padding=(0, 0), groups=1):
    window = {"kernel": kernel, "stride": stride, "padding": padding, "groups": groups}
    return {"kind": "conv", "outputs": outputs} | window


def pool(kind, kernel, stride, padding=(0, 0)):
    return {"kind": kind, "kernel": kernel, "stride": stride, "padding": padding}


def dense(outputs):
    return {"kind": "dense", "outputs": outputs}


RELU, TANH, FLATTEN = {"kind": "relu"}, {"kind": "tanh"}, {"kind": "flatten"}


def adaptive(rows, columns):
    return {"kind": "adaptive", "to": [rows, columns]}


# name, shape of an example, batch, layers
CASES = [
    ("one dense layer", (7, 1, 1), 3, [dense(5)]),
    ("wide dense layers", (131, 1, 1), 9, [dense(67), RELU, dense(19), TANH, dense(3)]),
    ("a convolution of one pixel", (3, 5, 4), 2, [conv(5, (1, 1)), FLATTEN, dense(3)]),
    ("strides and paddings that differ", (2, 9, 11), 3,
     [conv(7, (3, 2), (2, 3), (1, 0)), RELU, conv(4, (2, 3), (1, 2), (0, 1)), FLATTEN, dense(4)]),
    ("a kernel larger than the image", (1, 3, 2), 2,
     [conv(3, (3, 3), padding=(2, 2)), conv(17, (7, 5), (2, 1), (2, 1)), RELU, FLATTEN, dense(3)]),
    ("many channels", (19, 5, 5), 2,
     [conv(33, (3, 3), padding=(1, 1)), RELU, conv(21, (3, 3), (2, 2), (1, 1)), FLATTEN, dense(5)]),
    ("max pooling that overlaps", (2, 12, 11), 3,
     [conv(9, (3, 3), padding=(1, 1)), RELU, pool("max", (3, 3), (2, 2)),
      conv(5, (2, 2)), pool("max", (2, 3), (1, 2), (1, 1)), TANH, FLATTEN, dense(3)]),
    ("average pooling with an edge", (2, 9, 10), 2,
     [conv(6, (3, 3)), TANH, pool("average", (3, 2), (2, 2), (1, 1)),
      conv(4, (2, 2), padding=(1, 0)), pool("average", (2, 2), (2, 2)), FLATTEN, dense(3)]),
    ("adaptive pooling, down and up", (2, 11, 8), 2,
     [conv(5, (2, 2)), adaptive(3, 4), conv(4, (2, 2)), adaptive(5, 3), FLATTEN, dense(3)]),
    ("tanh twice, and ReLU after max pooling", (1, 6, 6), 2,
     [conv(3, (3, 3)), TANH, TANH, pool("max", (2, 2), (2, 2)), RELU, FLATTEN, dense(3)]),
    ("a convolution of a flat row", (6, 1, 1), 3,
     [dense(8), RELU, conv(4, (3, 3), padding=(1, 1)), TANH, dense(3)]),
    ("convolutions in groups", (6, 9, 8), 3,
     [conv(4, (3, 2), (2, 1), (1, 0), groups=2), RELU, conv(20, (3, 3), padding=(1, 1), groups=4),
      pool("max", (2, 2), (2, 2)), FLATTEN, dense(3)]),
    ("a filter for each channel", (5, 6, 7), 2,
     [conv(10, (3, 3), padding=(1, 1), groups=5), TANH, conv(10, (2, 2), groups=10), FLATTEN,
      dense(4)]),
]


def module(layer, inputs):
    kind = layer["kind"]
    if kind == "conv":
        window = [layer["kernel"], layer["stride"], layer["padding"]]
        return nn.Conv2d(inputs[0], layer["outputs"], *window, groups=layer["groups"])
    if kind == "max":
        return nn.MaxPool2d(layer["kernel"], layer["stride"], layer["padding"])
    if kind == "average":
        return nn.AvgPool2d(layer["kernel"], layer["stride"], layer["padding"])
    if kind == "adaptive":
        return nn.AdaptiveAvgPool2d(layer["to"])
    if kind == "dense":
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs[0], layer["outputs"]),
                             nn.Unflatten(1, (layer["outputs"], 1, 1)))
    if kind == "flatten":
        size = inputs[0] * inputs[1] * inputs[2]
        return nn.Sequential(nn.Flatten(), nn.Unflatten(1, (size, 1, 1)))
    return {"relu": nn.ReLU, "tanh": nn.Tanh}[kind]()


def network(shape, layers):
    modules, probe = [], torch.zeros(1, *shape)
    for layer in layers:
        modules.append(module(layer, probe.shape[1:]))
        probe = modules[-1](probe)
    return nn.Sequential(*modules, nn.Flatten())


def start(model):
    """Fills tensors by the formula, with twice PyTorch's spread, to learn sooner."""
    parameters = list(model.parameters())
    with torch.no_grad():
        for index, parameter in enumerate(parameters):
            weight = parameters[index - index % 2]
            bound = np.float32(2 / np.sqrt(weight[0].numel()))
            start = values(parameter.numel(), index + 1).astype(np.float32) * bound
            parameter.copy_(torch.from_numpy(start.astype(np.float64)).reshape(parameter.shape))


def batch(shape, count, classes, salt):
    x = torch.from_numpy(values(count * int(np.prod(shape)), 1000 + salt)).reshape(count, *shape)
    return x, (torch.arange(count) * 3 + salt) % classes


def loss_of(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


def case(name, shape, count, layers):
    model = network(shape, layers)
    start(model)
    x, y = batch(shape, count, layers[-1]["outputs"], 0)
    loss = loss_of(model, x, y)
    loss.backward()
    grad = torch.cat([p.grad.flatten() for p in model.parameters()])
    grad = [float(f"{g:.6g}") for g in grad]
    described = {"name": name, "shape": shape, "batch": count, "layers": layers}
    return described | {"loss": loss.item(), "grad": grad}


def twenty_steps(model, shape, count, classes, rate):
    start(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    for step in range(20):
        # Three batches over and over, so that there is something to learn.
        x, y = batch(shape, count, classes, step % 3)
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def small_alexnet():
    """torchvision's AlexNet with widths 4, 12, 24, 16, 16, 32 and 10 classes, without dropout."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(4, 12, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(),
        nn.Conv2d(24, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.AdaptiveAvgPool2d(6), nn.Flatten(),
        nn.Linear(16 * 36, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))


def main():
    golden = {
        "torch": torch.__version__.split("+")[0],
        "cases": [case(*spec) for spec in CASES],
        "lenet": twenty_steps(lenet(), (1, 28, 28), 16, 10, 0.1),
        "alexnet": twenty_steps(small_alexnet(), (3, 95, 95), 8, 10, 0.03),
    }
    json.dump(golden, sys.stdout)
    print()


main()
