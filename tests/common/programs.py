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
"""Programs that run alike on real processes and on simulated ranks: from whole arrays and a mesh to named DTensors."""

import numpy as np
from mindspore import Parameter, Tensor, mint

from hyper_parallel import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    full,
    value_and_grad,
)
from hyper_parallel.core.tensor_parallel import loss_parallel
from hyper_parallel.platform.platform import current_platform

F = mint.nn.functional


def ints(seed, *shape, high=4):
    """Small integers of both signs as float32: exact under any order of summation."""
    return np.random.default_rng(seed).integers(1 - high, high, shape).astype("float32")


def put(mesh, array, *placements):
    """The array under placements; axes beyond the given placements are replicated."""
    return distribute_tensor(array, mesh, [*placements, *[Replicate()] * (mesh.ndim - len(placements))])


def addends(mesh, shape, seed, op="sum"):
    """A tensor pending on the first axis, whose addends differ from rank to rank."""
    ranks = current_platform().positions(mesh)
    parts = [Tensor(ints(seed + 31 * mesh.coordinate_of(r)[0], *shape)) for r in ranks]
    placements = [Partial(op)] + [Replicate()] * (mesh.ndim - 1)
    return DTensor.from_local(parts if current_platform().simulated else parts[0], mesh, placements, shape=shape)


def lora_chain(mesh):
    """(x @ A.T) @ B.T with x and A cut on the contracted dimension."""
    x, a, b = put(mesh, ints(0, 4, 17), Shard(1)), put(mesh, ints(1, 8, 17), Shard(1)), put(mesh, ints(2, 9, 8))
    g = put(mesh, ints(3, 4, 9))

    def loss(x, a, b):
        return (mint.matmul(mint.matmul(x, a.T), b.T).reduce_partial() * g).sum()

    value, (gx, ga, gb) = value_and_grad(loss, (0, 1, 2))(x, a, b)
    return {"loss": value, "gx": gx, "ga": ga, "gb": gb}


def column_then_row(mesh):
    """relu(x @ W1) @ W2 + bias, the two-layer block of tensor parallelism."""
    x, w1 = put(mesh, ints(0, 6, 8)), put(mesh, ints(1, 7, 8), Shard(0))
    w2, bias = put(mesh, ints(2, 5, 7), Shard(1)), put(mesh, ints(3, 5))

    def loss(x, w1, w2, bias):
        return (F.linear(F.relu(F.linear(x, w1)), w2, bias).reduce_partial() * 2).sum()

    value, grads = value_and_grad(loss, (0, 1, 2, 3))(x, w1, w2, bias)
    return {"loss": value, **{f"g{i}": g for i, g in enumerate(grads)}}


def data_parallel(mesh):
    """A batch cut by rows, unevenly, against a replicated weight; the mean of the squares."""
    x, w = put(mesh, ints(0, 7, 4), Shard(0)), put(mesh, ints(1, 4, 3))
    value, (gx, gw) = value_and_grad(lambda x, w: mint.square(mint.matmul(x, w)).sum(), (0, 1))(x, w)
    return {"loss": value, "gx": gx, "gw": gw}


def pending_arithmetic(mesh):
    """Sums, products by scalars and replicas, casts and movement of a pending sum, reduced at the end."""
    p, r = addends(mesh, (4, 6), 5), put(mesh, ints(6, 4, 6))
    y = ((p * 3 - r) + 1).T.reshape(12, 2)
    return {"pending": y, "value": y.reduce_partial(), "cat": mint.cat([p, r], 1).reduce_partial()}


def redistributions(mesh):
    """Through shards, replicas and pending sums and back, with sizes that divide nothing."""
    x = put(mesh, ints(0, 5, 7), Shard(0))
    rest = [Replicate()] * (mesh.ndim - 1)
    steps = [
        [Shard(1), *rest],
        [Partial(), *rest],
        [Shard(0), *rest],
        [Replicate(), *rest],
        [Partial("max"), *rest],
        [Replicate(), *rest],
    ]
    out = {}
    for i, placements in enumerate(steps):
        x = x.redistribute(mesh, placements)
        out[f"step{i}"] = x
    return out


def extremes(mesh):
    """amax over a cut dimension, a monotone map, and the gradient through the tie rule."""
    x = put(mesh, ints(0, 6, 4), Shard(0))
    value, g = value_and_grad(lambda x: (F.relu(mint.amax(x, 0) + 2)).reduce_partial().sum())(x)
    return {"loss": value, "g": g}


def means(mesh):
    """Means over cut dimensions, uneven."""
    x = put(mesh, ints(0, 7, 4) * 7, Shard(0))
    value, g = value_and_grad(lambda x: (x.mean(0) * 7).sum())(x)
    return {"loss": value, "g": g}


def in_place(mesh):
    """In-place updates of shards, replicas and pending sums."""
    x, r, p = put(mesh, ints(0, 5, 4), Shard(0)), put(mesh, ints(1, 5, 4)), addends(mesh, (3,), 7)
    x += x
    r.mul_(3)
    p += 1
    r[:, 1:3] = 5.0
    return {"x": x, "r": r, "p": p.reduce_partial(), "y": x * 2 + 1}


def parameters(mesh):
    """Two steps of descent on a cut and a replicated parameter."""
    w, v = Parameter(put(mesh, ints(0, 8, 4), Shard(0)), name="w"), Parameter(put(mesh, ints(1, 4, 2)), name="v")
    x = put(mesh, ints(2, 3, 8), Shard(1))
    for _ in range(2):
        _, (gw, gv) = value_and_grad(
            lambda x: mint.matmul(mint.matmul(x, w).reduce_partial(), v).sum(), None, [w, v]
        )(x)
        w -= gw
        v -= gv
    return {"w": w, "v": v, "gw": gw, "gv": gv}


def made_from_nothing(mesh):
    """Factories under cut, replicated and pending layouts, and softmax and norms over whole dimensions."""
    ones = full((5, 4), 2.0, device_mesh=mesh, placements=[Shard(0)] + [Replicate()] * (mesh.ndim - 1))
    pending = full((3,), 2.0, device_mesh=mesh, placements=[Partial()] + [Replicate()] * (mesh.ndim - 1))
    soft = mint.softmax(put(mesh, ints(0, 5, 4), Shard(0)), -1)
    return {"ones": ones, "pending": pending.reduce_partial(), "soft": soft, "silu": F.silu(ones)}


def vocabulary_loss(mesh):
    """Mean cross entropy over cut classes and, on a second axis, a cut batch; one label is ignored."""
    more = [Shard(0)] if mesh.ndim > 1 else []
    logits = distribute_tensor(ints(0, 5, 7, high=9) / 4, mesh, [Shard(1), *more])
    labels = distribute_tensor(np.array([3, -100, 6, 0, 2]), mesh, [Replicate(), *more])
    with loss_parallel():
        value, grad = value_and_grad(lambda z: F.cross_entropy(z, labels))(logits)
    return {"loss": value, "grad": grad}


EXACT = (
    lora_chain,
    column_then_row,
    data_parallel,
    pending_arithmetic,
    redistributions,
    extremes,
    means,
    in_place,
    parameters,
)
ROUNDED = (made_from_nothing, vocabulary_loss)
PROGRAMS = {program.__name__: program for program in EXACT + ROUNDED}
