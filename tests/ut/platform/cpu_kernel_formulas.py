# Copyright 2026 The hyper_parallel partial-sound fork authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""The truth of the CPU substitutes: every operation again, in plain numpy on float64."""
import math

import numpy as np

erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def log_softmax(x, dim=None, dtype=None):
    del dtype
    dim = dim if dim is not None else (0 if x.ndim in (0, 1, 3) else 1)
    return x - np.log(np.exp(x).sum(dim, keepdims=True)) if x.ndim else x - x


def softmax(x, dim=-1):
    return np.exp(x) / np.exp(x).sum(dim, keepdims=True)


def softplus(x, beta=1, threshold=20):
    return np.where(beta * x > threshold, x, np.logaddexp(0, beta * x) / beta)


def swiglu(x, dim=-1):
    a, b = np.split(x, 2, dim)
    return silu(a) * b


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    mean = x.mean(dims, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(dims, keepdims=True) + eps)
    return (x - mean) * rstd * (1 if weight is None else weight) + (0 if bias is None else bias), mean, rstd


def rms_norm(x, gamma, eps=1e-6):
    dims = tuple(range(x.ndim - gamma.ndim, x.ndim))
    rstd = 1 / np.sqrt((x ** 2).mean(dims, keepdims=True) + eps)
    return x * rstd * gamma, rstd


def add_rms_norm(a, b, gamma, eps=1e-6):
    return (*rms_norm(a + b, gamma, eps), a + b)


def reduced(loss, reduction="mean"):
    kind = {0: "sum", 1: "mean", 2: "none"}.get(reduction, reduction)
    return {"sum": loss.sum, "mean": loss.mean, "none": lambda: loss}[kind]()


def pad(x, padding, value=0.0):
    for i in range(len(padding) // 2):
        before, after = padding[2 * i], padding[2 * i + 1]
        dim = x.ndim - 1 - i
        x = np.take(x, np.arange(max(-before, 0), x.shape[dim] - max(-after, 0)), dim)
        widths = [(0, 0)] * x.ndim
        widths[dim] = (max(before, 0), max(after, 0))
        x = np.pad(x, widths, constant_values=value)
    return x


def split(x, size, dim=0):
    cuts = np.cumsum(size)[:-1] if not isinstance(size, int) else np.arange(size, x.shape[dim], size)
    return tuple(np.split(x, cuts, dim))


def unbind(x, dim=0):
    return tuple(np.moveaxis(x, dim, 0))


def scatter(x, dim, index, source, add=False):
    out = x.copy()
    places = list(np.indices(index.shape))
    places[dim] = index
    values = source if np.ndim(source) == 0 else source[tuple(slice(0, n) for n in index.shape)]
    if add:
        np.add.at(out, tuple(places), values)
    else:
        out[tuple(places)] = values
    return out


def index_add(x, dim, index, source, alpha=1):
    out = np.moveaxis(x, dim, 0).copy()
    np.add.at(out, index, alpha * np.moveaxis(source, dim, 0))
    return np.moveaxis(out, 0, dim)


def index_write(x, dim, index, value):
    out = np.moveaxis(x, dim, 0).copy()
    out[index] = value if np.ndim(value) == 0 else np.moveaxis(value, dim, 0)
    return np.moveaxis(out, 0, dim)


def index_put(x, indices, values, accumulate=False):
    out = x.copy()
    if accumulate:
        np.add.at(out, indices, values)
    else:
        out[indices] = values
    return out


def one_hot(x, classes, on, off, dim=-1):
    classes = classes if classes >= 0 else x.max() + 1
    return np.moveaxis(np.where(x[..., None] == np.arange(classes), on, off), -1, dim)


def tile(x, *counts):
    return np.tile(x, counts[0] if isinstance(counts[0], (tuple, list)) else counts)


def ordered(x, dim=-1, descending=False, stable=False):
    """Values and places by insertion of ties in their old order."""
    del stable
    line = np.moveaxis(x, dim, -1)
    places = np.empty(line.shape, np.int64)
    for at in np.ndindex(line.shape[:-1]):
        row = list(line[at])
        places[at] = sorted(range(len(row)), key=lambda i, r=row: -r[i] if descending else r[i])
    values = np.take_along_axis(line, places, -1)
    return np.moveaxis(values, -1, dim), np.moveaxis(places, -1, dim)


def topk(x, k, dim=-1, largest=True, sorted=True):  # pylint: disable=redefined-builtin
    del sorted
    return tuple(np.take(part, range(k), dim) for part in ordered(x, dim, largest))


def median(x, dim=-1, keepdim=False):
    out = [np.take(part, [(x.shape[dim] - 1) // 2], dim) for part in ordered(x, dim)]
    return tuple(part if keepdim else part.squeeze(dim) for part in out)


def running(better):
    def scan(x, dim):
        values, places = x.copy(), np.zeros(x.shape, np.int64)
        values, places = np.moveaxis(values, dim, 0), np.moveaxis(places, dim, 0)
        for i in range(1, len(values)):
            new = better(values[i], values[i - 1])
            places[i] = np.where(new, i, places[i - 1])
            values[i] = np.where(new, values[i], values[i - 1])
        return np.moveaxis(values, 0, dim), np.moveaxis(places, 0, dim)
    return scan


def axes(dim):
    return tuple(dim) if isinstance(dim, list) else dim


def var(x, dim=None, correction=1, keepdim=False):
    return x.var(axes(dim), ddof=correction, keepdims=keepdim)


def vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):  # pylint: disable=redefined-builtin
    del dtype
    size = np.abs(x)
    if ord in (math.inf, -math.inf):
        return (size.max if ord > 0 else size.min)(axes(dim), keepdims=keepdim)
    if ord == 0:
        return (size > 0).sum(axes(dim), keepdims=keepdim).astype(x.dtype)
    return (size ** ord).sum(axes(dim), keepdims=keepdim) ** (1 / ord)


def logsumexp(x, dim, keepdim=False):
    return np.log(np.exp(x).sum(axes(dim), keepdims=keepdim))


def divided(x, other, rounding_mode=None):
    return {"floor": np.floor, "trunc": np.trunc, None: lambda y: y}[rounding_mode](x / other)


def fill_diagonal(x, value, wrap=False):
    out = x.copy()
    np.fill_diagonal(out, value, wrap)
    return out


def attention(q, k, v, mask, heads, scale):
    """One batch entry and head at a time, BSH layout."""
    out, width = np.zeros(q.shape), q.shape[-1] // heads
    group = heads // (k.shape[-1] // width)
    for b in range(q.shape[0]):
        for h in range(heads):
            mine, shared = slice(h * width, (h + 1) * width), slice(h // group * width, (h // group + 1) * width)
            scores = np.where(mask, -np.inf, q[b, :, mine] @ k[b, :, shared].T * scale)
            weights = np.exp(scores - np.max(scores, -1, keepdims=True))
            out[b, :, mine] = weights / weights.sum(-1, keepdims=True) @ v[b, :, shared]
    return out


def likelihood(x, labels, weight, reduction, ignored):
    """Weighted negative log likelihood of 4-D scores, and the sum of the weights that count; by a loop."""
    losses, shares = np.zeros(labels.shape), np.zeros(labels.shape)
    for at, label in np.ndenumerate(labels):
        if label != ignored:
            shares[at] = weight[label]
            losses[at] = -x[(at[0], label, *at[1:])] * weight[label]
    return (losses.sum(), losses.sum() / shares.sum(), losses)[reduction], shares.sum()
