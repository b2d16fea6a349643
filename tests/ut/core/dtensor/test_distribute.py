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
"""DTensors made from whole tensors, and every form of redistribute; values, gradients and refusals."""
import numpy as np
import pytest
from mindspore import Tensor

from hyper_parallel import (
    DTensor, LayoutError, MeshError, Partial, Replicate, Shard, denote, distribute_tensor, grad, init_device_mesh,
    record_collectives, simulate,
)

R, S, P = Replicate(), Shard, Partial


@pytest.fixture(name="mesh")
def _mesh():
    with simulate(2):
        yield init_device_mesh("npu", (2,), mesh_dim_names=("tp",))


def _lists(tensor):
    return [v.tolist() for v in tensor.numpy_locals()]


WHOLE = np.random.default_rng(3).integers(-9, 10, (5, 3)).astype("float32")
EVERY = [R, S(0), S(1), S(-1), P("sum"), P("avg"), P("max"), P("min"), P("prod")]


@pytest.mark.parametrize("placement", EVERY)
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_distributing_keeps_the_value(placement, ranks):
    """
    Feature: distribute_tensor.
    Description: every placement on 1, 2, 3 and 8 ranks, uneven and empty shards; tensors, arrays and lists.
    Expectation: the value; no communication; the source is not changed.
    """
    with simulate(ranks), record_collectives() as log:
        mesh = init_device_mesh("cpu", (ranks,))
        source = Tensor(WHOLE)
        for whole in (source, WHOLE, WHOLE.tolist()):
            x = distribute_tensor(whole, mesh, [placement])
            assert x.shape == (5, 3) and np.array_equal(denote(x.numpy_locals(), x.layout), WHOLE)
        assert np.array_equal(source.asnumpy(), WHOLE)
        assert not isinstance(source, DTensor) and log == []


@pytest.mark.parametrize("op, second", [("sum", 0.0), ("avg", 5.0), ("max", 5.0), ("min", 5.0), ("prod", 1.0)])
def test_under_partial_the_value_counts_once(mesh, op, second):
    """
    Feature: distribute_tensor under Partial.
    Description: 5.0 on two ranks.
    Expectation: coordinate 0 keeps it; the other holds what adds nothing.
    """
    assert _lists(distribute_tensor(np.array([5.0], "float32"), mesh, [P(op)])) == [[5.0], [second]]


def test_pairs_of_placements_and_booleans(grid):
    """
    Feature: distribute_tensor.
    Description: all pairs on (2, 2) whose Partials are of one family; a pending conjunction; integers.
    Expectation: the value.
    """
    for a in EVERY:
        for b in EVERY:
            if a.is_partial() and b.is_partial() and a != b and {a, b} != {P("sum"), P("avg")}:
                continue
            x = distribute_tensor(WHOLE, grid, [a, b])
            assert np.array_equal(denote(x.numpy_locals(), x.layout), WHOLE), (a, b)
    for whole, placements in ((WHOLE > 0, [P("all"), R]), (WHOLE > 0, [S(0), P("all")]),
                              (WHOLE.astype("int64"), [P(), S(1)])):
        x = distribute_tensor(whole, grid, placements)
        found = denote(x.numpy_locals(), x.layout)
        assert np.array_equal(found, whole) and found.dtype == whole.dtype


def test_a_dtensor_is_redistributed(mesh):
    """
    Feature: distribute_tensor of a DTensor.
    Description: a replica to a shard, a pending sum to a replica; keywords.
    Expectation: the value under the new placements; the source keeps its own.
    """
    x = distribute_tensor(WHOLE, mesh, [P()])
    y = distribute_tensor(x, device_mesh=mesh, placements=(S(0),))
    assert y.placements == (S(0),) and np.array_equal(denote(y.numpy_locals(), y.layout), WHOLE)
    assert x.placements == (P(),)
    with record_collectives() as log:
        assert distribute_tensor(distribute_tensor(WHOLE, mesh, [R]), mesh, [S(1)]).local_shape == (5, 2)
    assert log == []


@pytest.mark.parametrize("source", [0, 1, 3])
def test_the_source_rank_is_broadcast_along_every_axis(grid, source):
    """
    Feature: distribute_tensor(src_data_rank=).
    Description: in a simulation all ranks hold one value; the collectives that a job would run.
    Expectation: one broadcast per axis, then the value; a rank outside the mesh is refused.
    """
    with record_collectives() as log:
        x = distribute_tensor(WHOLE, grid, [S(0), P()], src_data_rank=source)
    assert [(c.op, c.axis) for c in log] == [("broadcast", "dp"), ("broadcast", "tp")]
    assert np.array_equal(denote(x.numpy_locals(), x.layout), WHOLE)
    with pytest.raises(MeshError, match="src_data_rank=7"):
        distribute_tensor(WHOLE, grid, [S(0), R], src_data_rank=7)


@pytest.mark.parametrize("placement", EVERY)
def test_the_gradient_of_a_distributed_plain_tensor_is_complete(mesh, placement):
    """
    Feature: distribute_tensor backward.
    Description: a plain tensor distributed inside the differentiated function, under single_loss.
    Expectation: its gradient is the weight.
    """
    weight = np.arange(15.0, dtype="float32").reshape(5, 3) - 4

    def loss(t):
        x = distribute_tensor(t, mesh, [placement]).redistribute(mesh, [R])
        return (x * distribute_tensor(weight, mesh, [R])).sum()

    assert np.array_equal(grad(loss)(Tensor(WHOLE)).asnumpy(), weight)


# -- forms of redistribute -------------------------------------------------------------------------------------------

FORMS = {
    "positional": lambda x, m: x.redistribute(m, [S(1)]), "tuple": lambda x, m: x.redistribute(m, (S(1),)),
    "keywords": lambda x, m: x.redistribute(device_mesh=m, placements=[S(1)]),
    "keywords reversed": lambda x, m: x.redistribute(placements=(S(1),), device_mesh=m),
    "placements alone": lambda x, m: x.redistribute([S(1)]),
    "keyword alone": lambda x, m: x.redistribute(placements=[S(1)]),
    "no mesh": lambda x, m: x.redistribute(None, [S(1)]), "one placement": lambda x, m: x.redistribute(m, S(1)),
    "axis names": lambda x, m: x.redistribute(m, ("None", "tp")),
    "names in tuples": lambda x, m: x.redistribute(m, ("None", ("tp",))),
    "negative dim": lambda x, m: x.redistribute(m, [S(-1)]), "another mesh object": lambda x, m: x.redistribute(
        init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)), [S(1)]),
}


@pytest.mark.parametrize("name", list(FORMS))
def test_redistribute_takes_its_arguments_in_every_form(mesh, name):
    """
    Feature: redistribute.
    Description: the same target in every form of call.
    Expectation: the same layout value and the same value.
    """
    x = distribute_tensor(WHOLE, mesh, [S(0)])
    y = FORMS[name](x, mesh)
    assert y.placements == (S(1),) and y.layout.tensor_map == (-1, 0)
    assert np.array_equal(denote(y.numpy_locals(), y.layout), WHOLE) and x.placements == (S(0),)


def test_redistributing_to_the_same_placements_costs_nothing(mesh):
    """
    Feature: redistribute.
    Description: to its own placements, for a shard, a replica and a pending sum; reduce_partial without a
        Partial.
    Expectation: no collective, the same value.
    """
    with record_collectives() as log:
        for placement in (S(0), R, P(), P("max")):
            x = distribute_tensor(WHOLE, mesh, [placement])
            y = x.redistribute(mesh, [placement])
            assert y.placements == x.placements and np.array_equal(denote(y.numpy_locals(), y.layout), WHOLE)
        assert distribute_tensor(WHOLE, mesh, [S(0)]).reduce_partial().placements == (S(0),)
    assert log == []


@pytest.mark.parametrize("call, error, text", [
    (lambda x, m: x.redistribute(m), LayoutError, "placements"),
    (lambda x, m: x.redistribute(m, None), LayoutError, "placements"),
    (lambda x, m: x.redistribute(m, [S(0), S(1)]), LayoutError, "needs 1 placements"),
    (lambda x, m: x.redistribute(m, ("tp",)), LayoutError, "2 are needed"),
    (lambda x, m: x.redistribute(m, ("dp", "None")), LayoutError, "no axis 'dp'"),
    (lambda x, m: x.redistribute(m, [S(2)]), LayoutError, "out of range"),
    (lambda x, m: x.redistribute(init_device_mesh("cpu", (2,), mesh_dim_names=("dp",)), [R]), MeshError,
     "full_tensor"),
    (lambda x, m: x.redistribute(init_device_mesh("cpu", (2,), mesh_dim_names=("tp",), rank_list=(1, 0)), [R]),
     MeshError, "full_tensor"),
    (lambda x, m: x.redistribute(m, [P()]).redistribute(m, [P("max")]), LayoutError, "redistribute"),
])
def test_targets_that_do_not_fit_are_refused(mesh, call, error, text):
    """
    Feature: redistribute.
    Description: missing or wrong placements, other meshes, another reduce op.
    Expectation: an error that says what to write; no collective.
    """
    x = distribute_tensor(WHOLE, mesh, [S(0)])
    with record_collectives() as log, pytest.raises(error, match=text):
        call(x, mesh)
    assert log == []
