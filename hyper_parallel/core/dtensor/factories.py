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
"""DTensors made from nothing: `ones`, `zeros`, `full`, `empty`, `rand`, `randn`."""
from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint

from hyper_parallel.core.dtensor.assembly import layout_from
from hyper_parallel.core.dtensor.dtensor import DTensor, distribute_tensor
from hyper_parallel.core.dtensor.dtensor_base import wrap
from hyper_parallel.core.dtensor.layout_value import TensorSpec
from hyper_parallel.core.dtensor.random import generator
from hyper_parallel.platform.platform import current_platform

# A pending sum or product of the whole value: coordinate 0 holds it, the others the neutral element.
_NEUTRAL = {"sum": 0, "prod": 1}


def _spec(size, device_mesh, placements) -> TensorSpec:
    shape = (size,) if isinstance(size, int) else tuple(size)
    return layout_from(device_mesh, placements, len(shape)).spec(shape)


def _filled(spec: TensorSpec, value, dtype) -> DTensor:
    values = []
    for rank in current_platform().positions(spec.mesh):
        coordinate = spec.mesh.coordinate_of(rank)
        here = value
        for axis, op in enumerate(spec.layout.partial):
            if op in _NEUTRAL and coordinate[axis]:
                here = _NEUTRAL[op]
        local = mint.zeros(spec.local_shape(coordinate), dtype=dtype)
        values.append((local + here).to(dtype) if here else local)
    return wrap(values, spec)


def zeros(size, device_mesh, placements, *, dtype=ms.float32) -> DTensor:
    """Zeros of a global size.

    Args:
        size: global shape, an int or a tuple.
        device_mesh: the mesh.
        placements: one placement per mesh axis.
        dtype: element type.

    Raises:
        LayoutError: for placements that do not fit.

    Examples:
        >>> from hyper_parallel import simulate, init_device_mesh, Shard
        >>> with simulate(2):
        ...     zeros((4, 3), init_device_mesh("cpu", (2,)), [Shard(0)]).local_shape
        (2, 3)
    """
    return _filled(_spec(size, device_mesh, placements), 0, dtype)


def ones(size, device_mesh, placements, *, dtype=ms.float32) -> DTensor:
    """Ones of a global size; see `zeros`. Under Partial the *value* is ones, not the addends.

    Examples:
        >>> from hyper_parallel import simulate, init_device_mesh, Partial
        >>> with simulate(2):
        ...     ones(2, init_device_mesh("cpu", (2,)), [Partial()]).full_tensor().asnumpy().tolist()
        [1.0, 1.0]
    """
    return _filled(_spec(size, device_mesh, placements), 1, dtype)


def full(size, fill_value, *, device_mesh, placements, dtype=ms.float32) -> DTensor:
    """A global size filled with one value; see `zeros`. Under Partial the *value* is that, not the addends.

    Examples:
        >>> from hyper_parallel import simulate, init_device_mesh, Shard
        >>> with simulate(2):
        ...     x = full((3,), 7.0, device_mesh=init_device_mesh("cpu", (2,)), placements=[Shard(0)])
        ...     x.full_tensor().asnumpy().tolist()
        [7.0, 7.0, 7.0]
    """
    return _filled(_spec(size, device_mesh, placements), fill_value, dtype)


def empty(size, device_mesh, placements, *, dtype=ms.float32) -> DTensor:
    """Uninitialised storage of a global size; see `zeros`. A Replicate or Partial tensor is made equal on all ranks.

    Examples:
        >>> from hyper_parallel import simulate, init_device_mesh, Shard
        >>> with simulate(2):
        ...     empty((4, 3), init_device_mesh("cpu", (2,)), [Shard(1)]).shape
        (4, 3)
    """
    spec = _spec(size, device_mesh, placements)
    if spec.has_cuts and not spec.layout.is_partial and all(d is not None for d in spec.layout.axis_dim):
        ranks = current_platform().positions(spec.mesh)
        return wrap([mint.empty(spec.local_shape(spec.mesh.coordinate_of(r)), dtype=dtype) for r in ranks], spec)
    return _filled(spec, 0, dtype)


def _random(draw, size, device_mesh, placements, dtype) -> DTensor:
    spec = _spec(size, device_mesh, placements)
    whole = Tensor(np.asarray(draw(spec.shape), np.float32)).to(dtype)
    return distribute_tensor(whole, device_mesh, placements)


def rand(size, device_mesh, placements, *, dtype=ms.float32) -> DTensor:
    """Uniform values in [0, 1): the same whole tensor under every layout and rank count; see `manual_seed`, `zeros`.

    Examples:
        >>> from hyper_parallel import manual_seed, simulate, init_device_mesh, Shard
        >>> with simulate(2):
        ...     manual_seed(1)
        ...     x = rand((4,), init_device_mesh("cpu", (2,)), [Shard(0)]).full_tensor().asnumpy()
        ...     bool((0 <= x).all() and (x < 1).all())
        True
    """
    return _random(generator().random, size, device_mesh, placements, dtype)


def randn(size, device_mesh, placements, *, dtype=ms.float32) -> DTensor:
    """Standard normal values: the same whole tensor under every layout and rank count; see `manual_seed`, `zeros`.

    Examples:
        >>> from hyper_parallel import manual_seed, simulate, init_device_mesh, Replicate, Shard
        >>> with simulate(2):
        ...     mesh, draws = init_device_mesh("cpu", (2,)), []
        ...     for placement in (Shard(0), Replicate()):
        ...         manual_seed(3)
        ...         draws.append(randn((4,), mesh, [placement]).full_tensor().asnumpy())
        ...     bool((draws[0] == draws[1]).all())
        True
    """
    return _random(generator().standard_normal, size, device_mesh, placements, dtype)
