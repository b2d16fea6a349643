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
"""Parameter(DTensor): keeps layout, data, name and flags; copies, checkpoints, gradients, and what it may store."""
import copy
import pickle

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, ParameterTuple, Tensor, mint, nn

from hyper_parallel import (
    DTensor, LayoutError, Partial, PartialError, Replicate, Shard, distribute_tensor, init_device_mesh, value_and_grad,
)
from tests.common.tensors import value_of

R, S, P = Replicate(), Shard, Partial
W = np.arange(15.0, dtype="float32").reshape(5, 3) - 7
X = np.random.default_rng(0).integers(-4, 5, (3, 2)).astype("float32")


def _one_rank():
    return init_device_mesh("cpu", (1,), mesh_dim_names=("tp",), init_backend=False)


def _parameter(mesh, placement=S(0), name="w", **options):
    return Parameter(distribute_tensor(W, mesh, [placement]), name=name, **options)


@pytest.mark.parametrize("placement", [R, S(0), S(1), P(), P("max")])
def test_a_parameter_keeps_its_layout(mesh, placement):
    """
    Feature: Parameter(DTensor).
    Description: made under every placement, uneven shards included.
    Expectation: a Parameter and a DTensor with name, flag, global shape, layout and value; operations give
        DTensors.
    """
    p = _parameter(mesh, placement)
    assert isinstance(p, Parameter) and isinstance(p, DTensor) and type(p).__name__ == "ParameterDTensor"
    assert (p.name, p.requires_grad, p.shape, p.dtype, p.placements) == ("w", True, (5, 3), ms.float32, (placement,))
    assert p.local_shape == distribute_tensor(W, mesh, [placement]).local_shape and p.device_mesh is mesh
    assert np.array_equal(value_of(p), W) and p.layout.get_global_shape((0, 0)) == (5, 3)
    assert "name=w" in repr(p) and str(p.layout.value) in repr(p) and str(p) == repr(p)
    out = mint.mul(p, 2.0)
    assert isinstance(out, DTensor) and not isinstance(out, Parameter) and np.array_equal(value_of(out), 2 * W)
    assert p.param_info.name == "w" and p.value() is p and {p: 1}[p] == 1


def test_names_and_flags_are_its_own(mesh):
    """
    Feature: Parameter(DTensor).
    Description: requires_grad given and changed, name changed, layerwise flag; two parameters from one DTensor.
    Expectation: each keeps its own; the DTensor stays one.
    """
    source = distribute_tensor(W, mesh, [S(0)])
    a, b = Parameter(source, name="a", requires_grad=False), Parameter(source, name="b", layerwise_parallel=True)
    assert (a.name, a.requires_grad, b.name, b.requires_grad, b.layerwise_parallel) == ("a", False, "b", True, True)
    a.name, a.requires_grad = "c", True
    assert (a.name, a.requires_grad, b.name) == ("c", True, "b")
    assert not isinstance(source, Parameter) and np.array_equal(value_of(source), W)


COPIES = {
    "deepcopy": copy.deepcopy, "pickle": lambda p: pickle.loads(pickle.dumps(p)), "clone": lambda p: p.clone(),
    "copy()": lambda p: p.copy(), "clone same": lambda p: p.clone("same"),
}


@pytest.mark.parametrize("name", list(COPIES))
@pytest.mark.parametrize("placement", [R, S(0), P()])
def test_copies_are_parameters_that_share_nothing(mesh, name, placement):
    """
    Feature: copies of a Parameter(DTensor).
    Description: deepcopy, pickle, clone, copy; then the copy is changed in place.
    Expectation: a parameter of the same name, flag, layout and value; the original keeps its value.
    """
    p = _parameter(mesh, placement, requires_grad=False)
    made = COPIES[name](p)
    assert isinstance(made, Parameter) and isinstance(made, DTensor) and made is not p
    assert (made.name, made.requires_grad, made.placements, made.shape) == ("w", False, (placement,), (5, 3))
    assert np.array_equal(value_of(made), W)
    made *= 0.0
    assert np.array_equal(value_of(made), 0 * W) and np.array_equal(value_of(p), W)


@pytest.mark.parametrize("init, want", [("zeros", 0.0), ("ones", 1.0)])
def test_a_clone_can_be_initialised(mesh, init, want):
    """
    Feature: Parameter.clone(init).
    Description: zeros and ones, of a parameter cut unevenly.
    Expectation: the same layout, the constant as value.
    """
    p = _parameter(mesh)
    made = p.clone(init)
    assert made.placements == (S(0),) and made.shape == (5, 3) and np.array_equal(value_of(p), W)
    assert np.array_equal(value_of(made), np.full((5, 3), want))


def test_deepcopy_of_a_cell_keeps_its_parameters_distributed(mesh):
    """
    Feature: cells with Parameter(DTensor).
    Description: deepcopy of a cell.
    Expectation: the copy's parameter is distributed and independent.
    """
    net = _Net(mesh)
    twin = copy.deepcopy(net)
    assert twin.w is not net.w and twin.w.placements == (S(0),) and np.array_equal(value_of(twin.w), W)
    twin.w -= twin.w
    assert np.array_equal(value_of(net.w), W)


# -- storing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", [S(0), S(1), R, P()])
def test_a_dtensor_is_stored_with_its_layout(mesh, placement):
    """
    Feature: set_data(dtensor).
    Description: data of another layout stored in a parameter cut by rows.
    Expectation: value and layout of the data on every rank; name and flag stay; nothing is shared in meaning.
    """
    p = _parameter(mesh)
    p.set_data(distribute_tensor(3 * W, mesh, [placement]))
    assert p.placements == (placement,) and np.array_equal(value_of(p), 3 * W) and p.name == "w"
    assert np.array_equal(value_of(p + p), 6 * W)


def test_a_plain_part_is_stored_on_one_rank_and_refused_in_a_simulation(mesh):
    """
    Feature: set_data(plain tensor).
    Description: this rank's part, a part of another shape, a plain tensor in a simulation, no tensor at all.
    Expectation: stored, or an error that says how to distribute the whole value; the value is not changed by an
        error.
    """
    p = _parameter(mesh)
    with pytest.raises(LayoutError, match="distribute_tensor"):
        p.set_data(Tensor(W[:3]))
    assert np.array_equal(value_of(p), W)


def test_set_data_on_a_real_rank():
    """
    Feature: set_data(plain tensor) in a process.
    Description: this rank's part; a part of another shape; a DTensor.
    Expectation: stored with the layout kept; refused; adopted.
    """
    p = _parameter(_one_rank())
    p.set_data(Tensor(2 * W))
    assert p.placements == (S(0),) and np.array_equal(value_of(p), 2 * W) and np.array_equal(p.asnumpy(), 2 * W)
    with pytest.raises(LayoutError, match="Got .2, 3.*distribute_tensor"):
        p.set_data(Tensor(W[:2]))
    p.set_data(distribute_tensor(W, _one_rank(), [R]))
    assert p.placements == (R,) and np.array_equal(p.asnumpy(), W)


def test_in_place_updates_reach_the_parameter(mesh):
    """
    Feature: updates of a Parameter(DTensor).
    Description: -=, copy_, add_, assignment by index, ms.ops.assign, with and without a remembered reduction.
    Expectation: the value on every rank follows numpy.
    """
    p, want = _parameter(mesh), W.copy()
    p -= distribute_tensor(W, mesh, [S(0)]) * 0.5
    want = want - W * 0.5
    assert isinstance(p, Parameter) and np.array_equal(value_of(p), want)
    p.add_(distribute_tensor(W, mesh, [S(0)]))
    want = want + W
    p[:, 1] = 9.0
    want[:, 1] = 9
    assert np.array_equal(value_of(p), want)
    ms.ops.assign(p, distribute_tensor(W, mesh, [S(0)]))
    assert np.array_equal(value_of(p), W)
    p.copy_(distribute_tensor(2 * W, mesh, [S(0)]))
    assert np.array_equal(value_of(p), 2 * W) and p.name == "w" and p.placements == (S(0),)
    with pytest.raises(LayoutError):
        p.copy_(distribute_tensor(W, mesh, [R]))
    assert np.array_equal(value_of(p), 2 * W)


def test_a_pending_parameter_is_not_read_silently(mesh):
    """
    Feature: Parameter(DTensor) under Partial.
    Description: asnumpy of a pending parameter.
    Expectation: PartialError; reduce_partial gives the value.
    """
    p = _parameter(mesh, P())
    with pytest.raises(PartialError, match="reduce_partial"):
        p.asnumpy()
    assert np.array_equal(value_of(p.reduce_partial()), W) and p.placements == (P(),)


# -- cells, gradients, checkpoints -----------------------------------------------------------------------------------


class _Net(nn.Cell):
    """w @ x + b with w cut by rows."""

    def __init__(self, mesh):
        super().__init__()
        self.w = _parameter(mesh)
        self.b = Parameter(distribute_tensor(np.ones((5, 1), "float32"), mesh, [S(0)]), name="b")

    def construct(self, x):
        """The product of the weight and x."""
        return mint.matmul(self.w, x) + self.b


def test_a_cell_finds_its_parameters(mesh):
    """
    Feature: cells with Parameter(DTensor).
    Description: trainable_params, parameters_dict, replacement by setattr.
    Expectation: the distributed parameters by name; a replacement is found.
    """
    net = _Net(mesh)
    assert [p.name for p in net.trainable_params()] == ["w", "b"] and net.parameters_dict()["w"] is net.w
    net.w = Parameter(distribute_tensor(W, mesh, [S(1)]), name="w")
    assert net.w.placements == (S(1),) and net.parameters_dict()["w"] is net.w
    net.w = Parameter(distribute_tensor(2 * W, mesh, [S(0)]), name="w")
    assert np.array_equal(value_of(net(distribute_tensor(X, mesh, [R]))), 2 * W @ X + 1)


@pytest.mark.parametrize("form", ["one", "list", "tuple", "ParameterTuple", "trainable"])
def test_gradients_reach_parameters_in_every_form(mesh, form):
    """
    Feature: gradients of Parameter(DTensor).
    Description: weights as one Parameter, list, tuple, ParameterTuple, trainable_params(); never zeros.
    Expectation: g of every parameter with the label of its layout; the value unchanged.
    """
    net = _Net(mesh)
    x = distribute_tensor(X, mesh, [R])
    weights = {"one": net.w, "list": [net.w, net.b], "tuple": (net.w, net.b),
               "ParameterTuple": ParameterTuple([net.w, net.b]),
               "trainable": net.trainable_params()}[form]
    value, grads = value_and_grad(lambda x: net(x).sum(), None, weights)(x)
    grads = (grads,) if form == "one" else grads
    assert value.item() == (W @ X + 1).sum() and np.array_equal(value_of(net.w), W)
    for g, want in zip(grads, (np.ones((5, 2), "float32") @ X.T, np.full((5, 1), 2.0))):
        assert g.placements == (S(0),) and np.array_equal(value_of(g), want)
    assert len(grads) == (1 if form == "one" else 2)


def test_the_frameworks_own_gradient_is_not_zero_on_one_rank():
    """
    Feature: mindspore.value_and_grad with Parameter(DTensor).
    Description: weights= of the framework's own function, on a mesh of one rank.
    Expectation: the plain local gradient, not zeros.
    """
    net = _Net(_one_rank())
    x = distribute_tensor(X, _one_rank(), [R])
    _, grads = ms.value_and_grad(lambda x: net(x).sum().reduce_partial(), None, net.trainable_params())(x)
    assert np.array_equal(grads[0].asnumpy(), np.ones((5, 2), "float32") @ X.T)
    assert np.array_equal(grads[1].asnumpy(), np.full((5, 1), 2.0))


def test_a_checkpoint_holds_the_part_and_loads_into_the_layout(tmp_path):
    """
    Feature: save_checkpoint, load_checkpoint, load_param_into_net.
    Description: a cell with distributed parameters saved, changed and loaded again, on a mesh of one rank.
    Expectation: names and values as saved; the parameters keep class and layout.
    """
    net = _Net(_one_rank())
    path = str(tmp_path / "net.ckpt")
    ms.save_checkpoint(net, path)
    loaded = ms.load_checkpoint(path)
    assert sorted(loaded) == ["b", "w"] and np.array_equal(loaded["w"].asnumpy(), W)
    net.w -= net.w
    missing = ms.load_param_into_net(net, loaded)
    assert missing == ([], []) and np.array_equal(value_of(net.w), W)
    assert isinstance(net.w, DTensor) and isinstance(net.w, Parameter) and net.w.placements == (S(0),)
    assert net.w.name == "w"


def test_a_checkpoint_in_a_simulation_holds_the_part_of_the_asked_rank(mesh, tmp_path):
    """
    Feature: save_checkpoint in a simulation.
    Description: saved as rank 0; loaded back.
    Expectation: the file holds rank 0's part and no padding; loading one part into all ranks is refused.
    """
    net = _Net(mesh)
    path = str(tmp_path / "net.ckpt")
    ms.save_checkpoint(net, path)
    assert np.array_equal(ms.load_checkpoint(path)["w"].asnumpy(), W[:3])
    with pytest.raises(LayoutError, match="simulation"):
        ms.load_param_into_net(net, ms.load_checkpoint(path))
    assert np.array_equal(value_of(net.w), W)


def test_optimizers_of_the_framework_update_the_part():
    """
    Feature: optimizers of MindSpore.
    Description: nn.SGD on a distributed parameter, on a mesh of one rank.
    Expectation: the parameter moves by the learning rate times the gradient and keeps its layout.
    """
    net = _Net(_one_rank())
    x = distribute_tensor(X, _one_rank(), [R])
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.5)
    _, grads = value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())(x)
    optimizer(tuple(g.to_local() for g in grads))
    assert np.array_equal(value_of(net.w), W - 0.5 * np.ones((5, 2), "float32") @ X.T) and net.w.placements == (S(0),)
