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
"""Products: vectors, matrices and their affine forms, through the matrix product that the CPU build has."""
from __future__ import annotations

import numpy as np
from mindspore import mint

from hyper_parallel.platform.mindspore.cpu_kernels_common import contract, like, scaled, sum_over


def _affine(x, product, beta, alpha):
    """beta * x + alpha * product; x is left out for beta 0, so that its nan and inf do not enter."""
    product = scaled(product, alpha)
    return product if beta == 0 else scaled(x, beta) + product


def dot(x, other):
    """Inner product of two vectors, 0-d."""
    return mint.reshape(contract(mint.reshape(x, (1, x.size)),
                                 mint.reshape(other, (other.size, 1))), ())


def mv(x, vec):
    """Matrix (m, k) times vector (k,)."""
    return mint.reshape(contract(x, mint.unsqueeze(vec, 1)), (x.shape[0],))


def outer(x, vec2):
    """Outer product of two vectors."""
    return mint.unsqueeze(x, 1) * mint.unsqueeze(vec2, 0)


def addmm(x, mat1, mat2, beta=1, alpha=1):
    """beta * x + alpha * mat1 @ mat2."""
    return _affine(x, contract(mat1, mat2), beta, alpha)


def addmv(x, mat, vec, beta=1, alpha=1):
    """beta * x + alpha * mat @ vec."""
    return _affine(x, mv(mat, vec), beta, alpha)


def baddbmm(x, batch1, batch2, beta=1, alpha=1):
    """beta * x + alpha * batch1 @ batch2, batch by batch."""
    return _affine(x, contract(batch1, batch2), beta, alpha)


def addbmm(x, batch1, batch2, beta=1, alpha=1):
    """beta * x + alpha times the sum over batches of batch1 @ batch2."""
    return _affine(x, like(sum_over(contract(batch1, batch2), 0), x), beta, alpha)


def matmul_of_batches(x, w):
    """matmul where a dimension before the last is 1: the framework's backward raises or has a wrong shape there."""
    rows = x if x.ndim > 1 else mint.reshape(x, (1, -1))
    columns = w if w.ndim > 1 else mint.reshape(w, (-1, 1))
    if columns.ndim == 2:
        product = mint.matmul(mint.reshape(rows, (-1, rows.shape[-1])), columns)
    else:
        batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
        flat = [mint.reshape(mint.broadcast_to(t, batch + tuple(t.shape[-2:])), (-1, *t.shape[-2:]))
                for t in (rows, columns)]
        product = mint.bmm(*flat)
    kept = tuple(x.shape[-2:-1]) + tuple(w.shape[-1:] if w.ndim > 1 else ())
    return mint.reshape(product, np.broadcast_shapes(x.shape[:-2], w.shape[:-2]) + kept)


TABLE = {
    "Mm": contract, "Mv": mv, "Dot": dot, "Vdot": dot, "Outer": outer,
    "Addmm": addmm, "Addmv": addmv, "Baddbmm": baddbmm, "Addbmm": addbmm,
}
