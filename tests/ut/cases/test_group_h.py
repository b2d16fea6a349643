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
"""Cases H: offsets, checkpoints, optimizer steps and gradient norms, by plain operations on whole or reduced values."""
from __future__ import annotations

import os
import tempfile

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint

from hyper_parallel import (
    Layout, LayoutError, MeshError, Replicate, Shard, UnsupportedOpError, distribute_tensor, init_device_mesh, simulate,
)
from tests.ut.cases.harness import Job, Refusal, check, outcome, program, programmed, refused, same, text_of


def _sizes_and_offsets(length: int, ranks: int) -> tuple:
    with simulate(ranks):
        spec = Layout((ranks,), ("tp",), init_backend=False)("tp").value.spec((length,))
    areas = [spec.area((rank,))[0] for rank in range(ranks)]
    return np.array([size for _, size in areas]), np.array([begin for begin, _ in areas])


@program("C135")
def offset_of_an_empty_shard(job: Job):
    """Begins at the end of the tensor, over nothing."""
    sizes, offsets = _sizes_and_offsets(5, 4)
    x = job.whole(np.arange(5.0), "S(0)")
    for length, ranks, last in ((4096, 30, (123, 3973)), (10, 6, (0, 10)), (3, 8, (0, 3))):
        many, begins = _sizes_and_offsets(length, ranks)
        assert (many[-1], begins[-1]) == last and many.sum() == length
        same(begins, np.minimum(np.cumsum(many) - many, length), f"{length} over {ranks} ranks")
    return {"sizes": sizes, "offsets": offsets, "sizes@locals": np.array([len(v) for v in x.numpy_locals()])}


def _kept(tensors: dict) -> dict:
    """Whole values through a checkpoint file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.ckpt")
        ms.save_checkpoint([{"name": name, "data": tensor.full_tensor()} for name, tensor in tensors.items()], path)
        return {name: value.asnumpy() for name, value in ms.load_checkpoint(path).items()}


def _loaded(value, ranks: int, placement):
    """A value distributed over so many ranks and gathered again."""
    with simulate(ranks):
        mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))
        tensor = distribute_tensor(Tensor(value), mesh, [placement])
        check(tensor, value, f"on {ranks} ranks")
        return tensor.full_tensor()


@program("C137")
def adapter_checkpoint_across_sizes(job: Job):
    """What is saved has the global shape."""
    a, b = job.load("A", "B")
    state, results = _kept({"A": a, "B": b}), {}
    for ranks in (1, 2, 4):
        results |= {f"A@{ranks}": _loaded(state["A"], ranks, Replicate()),
                    f"B@{ranks}": _loaded(state["B"], ranks, Shard(0))}
    return results


@program("C139")
def checkpoint_resharded_across_sizes(job: Job):
    """Rows keep their order; a fused weight keeps its blocks."""
    w = job.load("w")
    gate, up = np.arange(8.0).reshape(4, 2), 100 + np.arange(8.0).reshape(4, 2)
    fused = job.whole(np.concatenate([gate, up]), "S(0)")
    state = _kept({"w": w, "fused": fused})
    for ranks in (1, 2, 8):
        same(_loaded(state["fused"], ranks, Shard(0)), np.concatenate([gate, up]), f"fused on {ranks} ranks")
    return {f"w@{ranks}": _loaded(state["w"], ranks, Shard(0)) for ranks in (1, 2, 8)}


@program("C140")
def adam_step_on_a_pending_gradient(job: Job):
    """The second moment is refused for a pending gradient, so the step is made on the reduced one."""
    w, grad = job.load("w", "grad")
    rate, first, second = (job.whole(v, "R") for v in (job.data.lr, 0.9, 0.999))

    def step(g):
        m, v = (1 - first) * g / (1 - first), (1 - second) * (g * g) / (1 - second)
        return w - rate * m / mint.sqrt(v)

    results = job.after_fix("w", step, (grad,))
    assert text_of(results["w"]) == "R"
    return results


@program("C142")
def norm_of_a_pending_gradient(job: Job):
    """Refused before the reduction; the clipped gradient is that of the whole."""
    grad = job.load("grad")

    def clipped(g):
        total = mint.norm(g)
        return total, g / total

    return (job.after_fix(("total", "grad"), clipped, (grad,))
            | job.after_fix("total@by squares", lambda g: mint.sqrt(mint.sum(g * g)), (grad,)))


@program("C143")
def norms_of_other_kinds_over_two_gradients(job: Job):
    """Maxima combine as maxima, sums of powers as sums."""
    gs, gr = job.load("gs", "gr")
    sizes, replica = mint.abs(gs), mint.abs(gr)
    top = mint.max(sizes)
    assert text_of(top) == "P(max)"
    cubes = mint.sum(sizes * sizes * sizes) + mint.sum(replica * replica * replica)
    one = mint.sum(sizes) + mint.sum(replica)
    assert text_of(one) == text_of(cubes) == "P(sum)"
    for kind in (float("inf"), 1, 2, 3):
        refused(lambda kind=kind: mint.norm(gs, kind), error=(LayoutError, UnsupportedOpError), says="Norm")
    three = mint.pow(cubes.reduce_partial(), job.whole(1 / 3, "R"))
    return {"inf": mint.maximum(top, mint.max(replica)), "one": one, "three": three}


@program("C144")
def gradients_on_different_meshes_in_one_norm(job: Job):
    """A stack of their norms is refused with both meshes named; over whole values it is right."""
    rows = job.mesh["dp"]
    g1 = distribute_tensor(Tensor(job.data.g1), rows, [Shard(0)])
    g2 = job.whole(job.data.g2, "R R")
    squares = [mint.sum(g * g).reduce_partial() for g in (g1, g2)]
    refusal = refused(lambda: mint.stack(squares), error=MeshError)
    assert str(rows) in str(refusal.error) and str(job.mesh) in str(refusal.error)
    refused(lambda: squares[0] + squares[1], error=MeshError)
    total = sum(float(s.full_tensor().asnumpy()) for s in squares) ** 0.5
    return {"total": Refusal(refusal.error), "total@whole": total}


def _element_types(tensor) -> set:
    return {str(tensor.dtype).lower()} | {str(v.dtype) for v in tensor.numpy_locals()}


@program("C145")
def element_type_of_a_parameter(job: Job):
    """Outer and local element type agree after every change, and the values are the new ones."""
    data = np.arange(8.0).reshape(4, 2)

    def parameter():
        return Parameter(job.whole(data.astype(np.float16), "S(0)"), name="p")

    p = parameter()
    assert _element_types(p) == {"float16"} and _element_types(p.to(ms.float32)) == {"float32"}
    ones = np.ones((2, 4), np.float32)
    check(mint.matmul(job.whole(ones, "S(1)"), p.to(ms.float32)), ones @ data, "product")
    p.set_data(job.whole((data + 1).astype(np.float16), "S(0)"))
    assert _element_types(p) == {"float16"}
    check(p, data + 1, "after set_data")
    for change in (lambda p: p.set_data(job.whole(data + 2, "S(0)").to(ms.float32)), lambda p: p.set_dtype(ms.float32)):
        p = parameter()
        try:
            change(p)
        except (LayoutError, TypeError, NotImplementedError):
            check(p, data, "after a refused change")
        assert len(_element_types(p)) == 1, _element_types(p)
    assert isinstance(p, Parameter) and p.name == "p"


@pytest.mark.parametrize("case_id", programmed("H"))
def test_case_of_group_h_gives_the_global_value(case_id):
    """
    Feature: state and optimizer steps.
    Description: run the program of one public case on simulated ranks, cold and warm.
    Expectation: the numpy value on the global data on every rank, or a refusal where the case accepts one.
    """
    assert outcome(case_id)
