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
"""What a user meets on real processes: errors before any collective, parameters, checkpoints; worker side."""

from __future__ import annotations

import os
import tempfile

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn

from hyper_parallel import (
    DTensor,
    HyperParallelError,
    LayoutError,
    MeshError,
    Partial,
    PartialError,
    Replicate,
    Shard,
    UnsupportedOpError,
    distribute_tensor,
    init_device_mesh,
    record_collectives,
    simulate,
    value_and_grad,
)
from hyper_parallel.platform.platform import current_platform
from tests.common.case import case
from tests.common.programs import ints, put


def _mesh(name="tp"):
    return init_device_mesh("npu", (current_platform().world_size(),), mesh_dim_names=(name,))


def _refused(call, error, text: str) -> None:
    """The call raises this error with this text before it communicates."""
    with record_collectives() as log:
        try:
            call()
        except error as refusal:
            assert isinstance(refusal, HyperParallelError) and text in str(refusal), str(refusal)
        else:
            raise AssertionError(f"not refused: {error.__name__} with {text!r} was expected")
    assert not log, log


@case
def bad_input_is_one_error_on_every_rank():
    """Wrong numbers of placements, unknown axes, foreign meshes, plain tensors, dims out of range, unknown ops."""
    mesh, other = _mesh(), _mesh("other")
    x, p = put(mesh, ints(0, 4, 4), Shard(0)), put(mesh, ints(1, 4, 4), Partial())
    y = put(other, ints(0, 4, 4), Shard(0))
    _refused(lambda: x.redistribute(mesh, [Shard(0), Shard(1)]), LayoutError, "needs 1 placements")
    _refused(lambda: x.redistribute(mesh, ("cp", "None")), LayoutError, "no axis 'cp'")
    _refused(lambda: mint.add(x, y), MeshError, "one mesh")
    _refused(lambda: x + Tensor(ints(0, 4, 4)), LayoutError, "plain tensor")
    _refused(lambda: put(mesh, ints(0, 4, 4), Shard(2)), LayoutError, "out of range")
    _refused(lambda: x.det(), UnsupportedOpError, "no distributed rule")
    _refused(lambda: mint.exp(p), PartialError, "reduce_partial")
    _refused(lambda: mint.matmul(p, p), PartialError, "cross terms")
    _refused(p.to_local, PartialError, "reduce_partial")


@case
def unequal_shards_are_found_before_the_first_collective():
    """from_local without shape= on locals of different sizes: the same error on every rank, no hang."""
    mesh, rank = _mesh(), current_platform().rank()
    x = DTensor.from_local(Tensor(np.ones((2 + (rank == 0), 3), "float32")), mesh, [Shard(0)])
    try:
        (x * 2).redistribute(mesh, [Replicate()])
    except LayoutError as refusal:
        assert "shape=" in str(refusal)
    else:
        raise AssertionError("unequal shards went through")
    world = current_platform().world_size()
    x = DTensor.from_local(
        Tensor(np.full((2 if rank < world - 1 else 1, 3), rank, "float32")),
        mesh,
        [Shard(0)],
        shape=(2 * world - 1, 3),
    )
    assert np.array_equal(x.full_tensor().asnumpy()[:, 0], np.repeat(np.arange(world), 2)[: 2 * world - 1])


class _Net(nn.Cell):
    """x @ w + b with w cut by rows and b replicated."""

    def __init__(self, mesh):
        super().__init__()
        world = mesh.size()
        self.w = Parameter(put(mesh, ints(0, 4 * world, 3), Shard(0)), name="w")
        self.b = Parameter(put(mesh, ints(1, 3)), name="b")

    def construct(self, x):
        """The product, reduced, and the bias."""
        return mint.matmul(x, self.w).reduce_partial() + self.b


@case
def parameters_keep_data_names_checkpoints_and_gradients():
    """A Cell with DTensor parameters: framework gradients, an optimizer step, a checkpoint round trip, a deep copy."""
    mesh, platform = _mesh(), current_platform()
    rank, world = platform.rank(), platform.world_size()
    net = _Net(mesh)
    assert isinstance(net.w, DTensor) and isinstance(net.w, Parameter) and net.w.name == "w"
    assert net.w.shape == (4 * world, 3) and net.w.local_shape == (4, 3)
    whole_x = ints(2, 5, 4 * world)
    x = put(mesh, whole_x, Shard(1))
    want_w, want_b = whole_x.T @ np.ones((5, 3), "float32"), np.full(3, 5, "float32")
    value, (gw, gb) = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())(x)
    assert value.asnumpy() == (whole_x @ ints(0, 4 * world, 3) + ints(1, 3)).sum()
    assert np.array_equal(gw.asnumpy(), want_w[4 * rank : 4 * rank + 4]) and np.array_equal(gb.asnumpy(), want_b)
    _, labelled = value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())(x)
    assert [g.placements for g in labelled] == [(Shard(0),), (Replicate(),)]
    nn.SGD(net.trainable_params(), 0.5)((gw, gb))
    assert np.array_equal(net.w.full_tensor().asnumpy(), ints(0, 4 * world, 3) - 0.5 * want_w)
    assert np.array_equal(net.b.asnumpy(), ints(1, 3) - 0.5 * want_b)
    _round_trip(net, mesh, rank)


def _round_trip(net, mesh, rank: int) -> None:
    before = net.w.numpy_locals()[0].copy()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"net_{rank}.ckpt")
        ms.save_checkpoint(net, path)
        net.w.set_data(Tensor(np.zeros_like(before)))
        assert not net.w.numpy_locals()[0].any()
        missing, unexpected = ms.load_param_into_net(net, ms.load_checkpoint(path))
    assert not missing and not unexpected
    assert np.array_equal(net.w.numpy_locals()[0], before) and net.w.placements == (Shard(0),)
    net.w.set_data(distribute_tensor(ints(9, *net.w.shape), mesh, [Shard(0)]))
    assert np.array_equal(net.w.full_tensor().asnumpy(), ints(9, *net.w.shape))


@case
def one_mesh_over_other_ranks_than_zero():
    """Replicate -> Partial on a mesh that lacks rank 0: its own coordinate 0 keeps the value."""
    platform = current_platform()
    world = platform.world_size()
    ranks = tuple(range(world - 2, world))
    if platform.rank() in ranks:
        mesh = init_device_mesh("cpu", (2,), rank_list=ranks)
        x = distribute_tensor(np.array([1.0, 2.0, 3.0], "float32"), mesh, [Replicate()])
        y = x.redistribute(mesh, [Partial()])
        assert y.placements == (Partial(),) and y.full_tensor().asnumpy().tolist() == [1.0, 2.0, 3.0]


@case
def source_rank_data_is_what_counts():
    """distribute_tensor(src_data_rank=1) takes rank 1's value on every rank."""
    mesh, rank = _mesh(), current_platform().rank()
    whole = np.arange(12, dtype="float32").reshape(6, 2) * (1 if rank == 1 else -7)
    x = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=1)
    assert np.array_equal(x.full_tensor().asnumpy(), np.arange(12).reshape(6, 2))


@case
def a_simulation_beside_a_job_does_not_touch_it():
    """Simulated and real tensors of one process keep their own plans."""
    world = current_platform().world_size()
    real = put(_mesh(), ints(0, 4, 4), Shard(0))
    with simulate(world):
        ideal = put(_mesh(), ints(0, 4, 4), Shard(0))
        assert len((ideal + 1).numpy_locals()) == world
    assert len((real + 1).numpy_locals()) == 1
