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
"""Cases on real workers: the five collectives against numpy, every element type, lines, grids and sub-groups."""
from __future__ import annotations

import functools

import mindspore
import numpy as np
from mindspore import mint

from hyper_parallel.core.dtensor.device_mesh import init_device_mesh
from hyper_parallel.errors import CommunicationError
from hyper_parallel.platform.platform import current_platform
from tests.common.case import case

INTEGERS = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "int32": np.int32, "int64": np.int64}
FLOATS = {"float16": np.float16, "bfloat16": np.float32, "float32": np.float32, "float64": np.float64}
NUMBERS = {**INTEGERS, **FLOATS}
MOVED = {**NUMBERS, "bool": np.bool_, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
         "complex64": np.complex64}
COMBINE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "all": np.logical_and}
SHAPES = [(), (2, 3, 2), (0, 3)]


def meshes() -> list:
    """Lines in both directions and, with four workers, grids in two arrangements: sub-groups of every kind."""
    world = current_platform().world_size()
    ranks = list(range(world))
    arrangements = [((world,), ranks), ((world,), ranks[::-1])]
    if world == 4:
        arrangements += [((2, 2), ranks), ((2, 2), [3, 1, 0, 2])]
    return [init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")[:len(shape)], rank_list=tuple(order))
            for shape, order in arrangements]


def axes():
    """Every axis of every mesh, with the ranks along it and this rank's coordinate."""
    platform = current_platform()
    for mesh in meshes():
        for axis in range(mesh.ndim):
            ranks = mesh.ranks_along(axis, platform.rank())
            yield platform, mesh, axis, ranks, ranks.index(platform.rank())


def data(rank: int, shape: tuple, dtype: str, draw: int = 0) -> np.ndarray:
    """Values of one rank: small integers of both signs that no two ranks share, exact in every element type."""
    rng = np.random.RandomState(1000 * draw + 17 * rank + len(shape))
    values = np.asarray(rng.randint(-4, 5, shape) * (rank + 1) + rank)
    if dtype == "bool":
        return np.asarray(values % 3 != 0)
    if dtype == "complex64":
        return (values + 1j * (values + rank)).astype(np.complex64)
    return values.astype(MOVED[dtype])


def signs(rank: int, shape: tuple, dtype: str, draw: int = 0) -> np.ndarray:
    """Factors whose product is exact in every element type."""
    values = np.asarray(np.random.RandomState(29 * rank + 5 + 1000 * draw).choice([-2, -1, 1, 2], shape))
    return values.astype(MOVED[dtype])


def tensor(array: np.ndarray, dtype: str):
    """The array as a tensor of the type."""
    return mindspore.Tensor(array, getattr(mindspore, "bool_" if dtype == "bool" else dtype))


def same(found, expected: np.ndarray, dtype: str, *where) -> None:
    """Equal type, shape and every bit of the value."""
    name = {"bool": "Bool", "bfloat16": "BFloat16"}.get(dtype, dtype.capitalize().replace("Ui", "UI"))
    assert str(found.dtype) == name, (found.dtype, name, *where)
    array = (found.astype(mindspore.float32) if dtype == "bfloat16" else found).asnumpy()
    assert array.shape == expected.shape, (array.shape, expected.shape, *where)
    assert np.array_equal(array, expected), (array, expected, *where)


def reduced(values: list, op: str) -> np.ndarray:
    """The reduction in numpy, in the element type of the values."""
    with np.errstate(over="ignore"):
        return np.asarray(functools.reduce(COMBINE[op], values)).astype(values[0].dtype)


@case(dtype=list(NUMBERS), op=["sum", "max", "min", "prod"])
def all_reduce(dtype, op):
    """Every rank holds the reduction over the ranks along the axis, and its own tensor is untouched."""
    make = signs if op == "prod" else data
    for platform, mesh, axis, ranks, _ in axes():
        for shape in SHAPES:
            mine = tensor(make(platform.rank(), shape, dtype), dtype)
            [found] = platform.all_reduce([mine], mesh, axis, op)
            same(found, reduced([make(r, shape, dtype) for r in ranks], op), dtype, mesh, axis, shape)
            same(mine, make(platform.rank(), shape, dtype), dtype, "the input changed", mesh, axis)


@case(op=["all", "max", "min"])
def all_reduce_bool(op):
    """bool: all and min are logical and, max is logical or."""
    combine = {"all": np.logical_and, "min": np.logical_and, "max": np.logical_or}[op]
    for platform, mesh, axis, ranks, _ in axes():
        for shape in SHAPES:
            [found] = platform.all_reduce([tensor(data(platform.rank(), shape, "bool"), "bool")], mesh, axis, op)
            expected = np.asarray(functools.reduce(combine, [data(r, shape, "bool") for r in ranks]))
            same(found, expected, "bool", mesh, axis, shape)


@case(dtype=list(MOVED))
def all_gather(dtype):
    """Every rank holds the values of all ranks along the axis, in the order of the axis."""
    for platform, mesh, axis, ranks, _ in axes():
        for shape in SHAPES:
            [found] = platform.all_gather([tensor(data(platform.rank(), shape, dtype), dtype)], mesh, axis)
            assert len(found) == len(ranks)
            for rank, part in zip(ranks, found):
                same(part, data(rank, shape, dtype), dtype, mesh, axis, shape, rank)


@case(dtype=list(MOVED))
def broadcast(dtype):
    """Every rank holds the value of the source coordinate, whichever that is."""
    for platform, mesh, axis, ranks, _ in axes():
        for source, shape in [(s, shape) for s in range(len(ranks)) for shape in SHAPES]:
            mine = tensor(data(platform.rank(), shape, dtype), dtype)
            [found] = platform.broadcast([mine], mesh, axis, source)
            same(found, data(ranks[source], shape, dtype), dtype, mesh, axis, shape, source)
            same(mine, data(platform.rank(), shape, dtype), dtype, "the input changed", mesh, axis)


@case(dtype=list(NUMBERS), op=["sum", "prod"])
def reduce_scatter(dtype, op):
    """Each rank holds the reduction of the chunks meant for its own coordinate."""
    make = signs if op == "prod" else data
    for platform, mesh, axis, ranks, own in axes():
        for shape in SHAPES:
            give = [[make(r, shape, dtype, c) for c in range(len(ranks))] for r in ranks]
            mine = [tensor(chunk, dtype) for chunk in give[own]]
            [found] = platform.reduce_scatter([mine], mesh, axis, op)
            same(found, reduced([chunks[own] for chunks in give], op), dtype, mesh, axis, shape)


@case(dtype=list(MOVED))
def all_to_all(dtype):
    """Each rank holds, in axis order, the chunks that the ranks along the axis had for it."""
    for platform, mesh, axis, ranks, own in axes():
        for shape in SHAPES:
            give = [[data(r, shape, dtype, draw=c + 1) for c in range(len(ranks))] for r in ranks]
            [found] = platform.all_to_all([[tensor(chunk, dtype) for chunk in give[own]]], mesh, axis)
            assert len(found) == len(ranks)
            for coordinate, part in enumerate(found):
                same(part, give[coordinate][own], dtype, mesh, axis, shape, coordinate)


VIEWS = {"transpose": (lambda x: mint.transpose(x, 0, 1), lambda a: a.T),
         "narrow": (lambda x: mint.narrow(x, 0, 1, 2), lambda a: a[1:3]),
         "column": (lambda x: mint.narrow(x, 1, 2, 1), lambda a: a[:, 2:3]),
         "first": (lambda x: mint.narrow(mint.narrow(x, 0, 0, 1), 1, 0, 1), lambda a: a[:1, :1]),
         "first_0d": (lambda x: mint.select(mint.select(x, 0, 0), 0, 0), lambda a: a[0, 0]),
         "last_0d": (lambda x: mint.select(mint.select(x, 0, 3), 0, 2), lambda a: a[3, 2])}


@case(dtype=["float32", "int16", "bool"], view=list(VIEWS))
def views_as_inputs(dtype, view):
    """Views of every kind give what their values say, and the memory under them is untouched."""
    cut, pick = VIEWS[view]
    op = "all" if dtype == "bool" else "sum"
    for platform, mesh, axis, ranks, own in axes():
        base = tensor(data(platform.rank(), (4, 3), dtype), dtype)
        parts = [np.array(pick(data(r, (4, 3), dtype))) for r in ranks]
        same(platform.all_reduce([cut(base)], mesh, axis, op)[0], reduced(parts, op), dtype, mesh, axis)
        same(platform.broadcast([cut(base)], mesh, axis, 0)[0], parts[0], dtype, mesh, axis)
        given = [cut(base) for _ in ranks]
        same(platform.reduce_scatter([given], mesh, axis, op)[0], reduced(parts, op), dtype, mesh, axis)
        for found in (platform.all_gather([cut(base)], mesh, axis)[0], platform.all_to_all([given], mesh, axis)[0]):
            for one, part in zip(found, parts, strict=True):
                same(one, part, dtype, mesh, axis)
        same(base, data(ranks[own], (4, 3), dtype), dtype, "the base changed", mesh, axis)


@case(dtype=["float16", "bfloat16", "float32", "float64"])
def real_sums(dtype):
    """Sums of reals lie within n * eps * sum(|v|) of the float64 sum, and are equal bit for bit on all ranks."""
    eps = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7, "float32": 2.0 ** -23, "float64": 2.0 ** -52}[dtype]
    for platform, mesh, axis, ranks, _ in axes():
        mine = [np.random.RandomState(r).randn(257) * 10.0 ** r for r in ranks]
        held = [tensor(v.astype(FLOATS[dtype]), dtype) for v in mine]
        exact = [wide(v) for v in held]
        [found] = platform.all_reduce([held[ranks.index(platform.rank())]], mesh, axis, "sum")
        bound = len(ranks) * eps * np.sum(np.abs(exact), 0)
        assert (np.abs(wide(found) - np.sum(exact, 0)) <= bound).all(), (mesh, axis)
        for other in platform.all_gather([found], mesh, axis)[0]:
            assert np.array_equal(wide(other), wide(found)), (mesh, axis)


def wide(x) -> np.ndarray:
    """The tensor as float64."""
    return (x.astype(mindspore.float32) if x.dtype == mindspore.bfloat16 else x).asnumpy().astype(np.float64)


@case
def wide_integers_are_exact():
    """int64 sums beyond 2^53 and uint8 sums modulo 2^8 are exact."""
    for platform, mesh, axis, ranks, _ in axes():
        big = [np.array([2 ** 60 + 3 * r, -(2 ** 55) - r], np.int64) for r in ranks]
        mine = mindspore.Tensor(big[ranks.index(platform.rank())])
        assert np.array_equal(platform.all_reduce([mine], mesh, axis, "sum")[0].asnumpy(), np.sum(big, 0))
        small = [np.array([200 + r, 255], np.uint8) for r in ranks]
        mine = mindspore.Tensor(small[ranks.index(platform.rank())])
        expected = np.sum(small, 0, dtype=np.uint8)
        assert np.array_equal(platform.all_reduce([mine], mesh, axis, "sum")[0].asnumpy(), expected)


@case
def results_share_no_memory():
    """Writing into a result changes neither the input nor another result."""
    for platform, mesh, axis, ranks, _ in axes():
        start = data(platform.rank(), (2, 3), "float32")
        mine = tensor(start, "float32")
        results = [platform.all_reduce([mine], mesh, axis, "max")[0], platform.broadcast([mine], mesh, axis, 0)[0],
                   platform.reduce_scatter([[mine for _ in ranks]], mesh, axis, "sum")[0],
                   *platform.all_gather([mine], mesh, axis)[0],
                   *platform.all_to_all([[mine for _ in ranks]], mesh, axis)[0]]
        for number, result in enumerate(results):
            result.copy_(mindspore.Tensor(np.full((2, 3), 100 + number, np.float32)))
        for number, result in enumerate(results):
            assert (result.asnumpy() == 100 + number).all(), (number, result)
        same(mine, start, "float32")


REFUSED = [("all_reduce", "bool", "sum"), ("all_reduce", "bool", "prod"), ("all_reduce", "float32", "all"),
           ("all_reduce", "float32", "avg"), ("all_reduce", "complex64", "sum"), ("all_reduce", "uint32", "max"),
           ("reduce_scatter", "bool", "sum"), ("reduce_scatter", "int32", "mean"), ("reduce_scatter", "int8", "all")]


@case
def wrong_types_are_refused_before_communication():
    """Every rank refuses; a collective right after it is answered in step, so nothing had been sent."""
    for platform, mesh, axis, ranks, _ in axes():
        for name, dtype, op in REFUSED:
            value = tensor(data(1, (2,), dtype), dtype)
            given = [value for _ in ranks] if name == "reduce_scatter" else value
            try:
                getattr(platform, name)([given], mesh, axis, op)
            except CommunicationError as error:
                assert "Cast first" in str(error) or "reduces" in str(error) or "Reduce" in str(error), error
            else:
                raise AssertionError(f"{name}({op}) of {dtype} was not refused")
        one = tensor(np.array([1], np.int32), "int32")
        same(platform.all_reduce([one], mesh, axis, "sum")[0], np.array([len(ranks)], np.int32), "int32", mesh, axis)


@case
def uneven_chunks_are_refused():
    """Chunks of unequal shape, a wrong number of chunks, or a source beyond the axis: refused, and the call to type."""
    for platform, mesh, axis, ranks, _ in axes():
        even = [mint.zeros((2,)) for _ in ranks]
        uneven = [*even[1:], mint.zeros((3,))]
        for call in [lambda c=uneven: platform.all_to_all([c], mesh, axis),
                     lambda c=even[1:]: platform.all_to_all([c], mesh, axis),
                     lambda c=uneven: platform.reduce_scatter([c], mesh, axis, "sum"),
                     lambda: platform.broadcast([even[0]], mesh, axis, len(ranks))]:
            try:
                call()
            except CommunicationError as error:
                assert "Pad" in str(error) or "coordinate" in str(error), error
            else:
                raise AssertionError("was not refused")
