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
"""Which reductions exist for which element types, and how they travel."""
from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import mint

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.errors import CommunicationError
from hyper_parallel.platform.mindspore.cpu import CpuPlatform
from hyper_parallel.platform.mindspore.wire import Reduction, combine, cut, fresh, join, reduction
from tests.common.fake_mindspore import FakeRuntime

NATIVE = [ms.float32, ms.float16, ms.bfloat16, ms.int8, ms.int16, ms.int32, ms.int64]


@pytest.mark.parametrize("op", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("dtype, carrier, gathered", [*[(d, None, False) for d in NATIVE], (ms.uint8, ms.int32, False),
                                                      (ms.float64, None, True)])
def test_reduction_of_numbers(dtype, carrier, gathered, op):
    """
    Feature: reductions.
    Description: every numeric type with every reduction.
    Expectation: the library's own where it has one, int32 for uint8, gathered for float64.
    """
    assert reduction(op, dtype) == Reduction(op, carrier, gathered)


@pytest.mark.parametrize("op, asked", [("all", "min"), ("min", "min"), ("max", "max")])
def test_reduction_of_bool_travels_as_int8(op, asked):
    """
    Feature: reductions.
    Description: logical and and or.
    Expectation: min and max of int8.
    """
    assert reduction(op, ms.bool_) == Reduction(asked, ms.int8)


@pytest.mark.parametrize("op, dtype, text", [
    ("sum", ms.bool_, "cast first"), ("prod", ms.bool_, "cast first"), ("all", ms.float32, "x != 0"),
    ("all", ms.uint8, "x != 0"), ("sum", ms.complex64, "Cast first"), ("max", ms.uint16, "Cast first"),
    ("avg", ms.float32, "divide by the size of the axis"), ("mean", ms.int32, "divide by the size of the axis"),
])
def test_reductions_without_meaning_are_refused(op, dtype, text):
    """
    Feature: reductions.
    Description: sums of bool, all of numbers, types that no library reduces, names that are no reduction.
    Expectation: CommunicationError that names the way out.
    """
    with pytest.raises(CommunicationError, match=text):
        reduction(op, dtype)


def test_reduction_that_a_library_lacks_is_gathered():
    """
    Feature: reductions.
    Description: a platform names a pair of reduction and type that its library lacks.
    Expectation: gathered for that pair, the library's own for another reduction of that type.
    """
    lacks = frozenset({("prod", "Int16")})
    assert reduction("prod", ms.int16, lacks).gathered and not reduction("sum", ms.int16, lacks).gathered


def test_combine_keeps_the_order_of_its_parts():
    """
    Feature: gathered reductions.
    Description: float64 values whose sum depends on the order of addition.
    Expectation: the left-to-right sum, bit for bit.
    """
    values = [1e16, 1.0, -1e16, 3.0]
    found = combine([ms.Tensor([v], ms.float64) for v in values], "sum").asnumpy()[0]
    assert found == ((values[0] + values[1]) + values[2]) + values[3] != sum(sorted(values))


@pytest.mark.parametrize("dtype", [ms.float32, ms.bfloat16, ms.float64, ms.int8, ms.bool_])
@pytest.mark.parametrize("view", [lambda x: x, lambda x: mint.narrow(x, 0, 0, 2), lambda x: mint.narrow(x, 0, 1, 2),
                                  lambda x: mint.transpose(x, 0, 1), lambda x: mint.select(mint.select(x, 0, 0), 0, 0),
                                  lambda x: mint.narrow(mint.narrow(x, 0, 0, 1), 1, 0, 1)])
def test_fresh_copies_every_kind_of_view(view, dtype):
    """
    Feature: private buffers.
    Description: the tensor itself, slices at its start and elsewhere, a transposition, single elements.
    Expectation: an equal, contiguous copy in memory of its own.
    """
    given = view(ms.Tensor(np.arange(12).reshape(4, 3) % 2, dtype))
    copy = fresh(given)
    assert copy.shape == given.shape and copy.dtype == dtype and copy.is_contiguous()
    assert np.array_equal(copy.astype(ms.float32).asnumpy(), given.astype(ms.float32).asnumpy())
    assert copy.data_ptr() != given.data_ptr()


def test_join_and_cut_are_inverse():
    """
    Feature: chunks in one buffer.
    Description: join four chunks of a shape, scalars and empty ones too, and cut each out again.
    Expectation: the chunks.
    """
    for shape in [(), (1,), (2, 3), (0, 2)]:
        parts = [np.full(shape, 10 * i, np.float32) + np.arange(np.prod(shape, dtype=int)).reshape(shape)
                 for i in range(4)]
        flat = join([ms.Tensor(part) for part in parts])
        for index, part in enumerate(parts):
            piece = cut(flat, index, shape).asnumpy()
            assert piece.shape == shape and np.array_equal(piece, part)


@pytest.mark.parametrize("started, call, text", [
    (False, lambda p, m: p.all_reduce([ms.Tensor([1.0])], m, 0, "sum"), "needs a process group"),
    (True, lambda p, m: p.all_reduce([ms.Tensor([True])], m, 0, "sum"), "cast first"),
    (True, lambda p, m: p.all_gather([ms.Tensor([1.0])], m, 0), "all_gather over ranks .0, 1. failed on rank 0: gone"),
])
def test_collectives_fail_with_one_kind_of_error(started, call, text):
    """
    Feature: failing collectives.
    Description: no process group; a type without that reduction; a library that gives up.
    Expectation: CommunicationError each time; the library is asked in the last case only.
    """
    asked = []

    class GivesUp:
        """A library whose peers are gone."""

        def __getattr__(self, name):
            asked.append(name)
            raise RuntimeError("gone")

    subject = CpuPlatform(FakeRuntime(0, 2, started), GivesUp())
    with pytest.raises(CommunicationError, match=text):
        call(subject, DeviceMesh("cpu", [0, 1], _init_backend=False))
    assert asked == (["all_gather"] if "failed" in text else [])


def test_nothing_is_asked_of_the_library_about_nothing_or_alone():
    """
    Feature: collectives.
    Description: empty tensors on an axis of two, full ones on an axis of one; a library that must not be asked.
    Expectation: the values themselves, and no call.
    """
    subject = CpuPlatform(FakeRuntime(0, 2), object())
    for ranks, shape in (([0, 1], (0, 3)), ([0], (2, 3))):
        mesh, value = DeviceMesh("cpu", ranks, _init_backend=False), ms.Tensor(np.ones(shape, np.float32))
        chunks = [value for _ in ranks]
        results = [subject.all_reduce([value], mesh, 0, "sum")[0], subject.broadcast([value], mesh, 0, 0)[0],
                   subject.reduce_scatter([chunks], mesh, 0, "max")[0], *subject.all_gather([value], mesh, 0)[0],
                   *subject.all_to_all([chunks], mesh, 0)[0]]
        assert len(results) == 3 + 2 * len(ranks)
        assert all(r.shape == shape and np.array_equal(r.asnumpy(), value.asnumpy()) for r in results)
    assert subject.runtime.log == []
