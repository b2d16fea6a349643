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
"""Data of the tests of remembered forms: the addends of a pending tensor, and a matrix with its weight."""
import numpy as np
from mindspore import Tensor

from hyper_parallel import DTensor, Partial

A, B = np.array([1, 6, -2], "float32"), np.array([3, 2, 5], "float32")
SUM = A + B
X = np.array([[1, -2, 4], [0, 3, -5]], "float32")
W = np.arange(12.0, dtype="float32").reshape(3, 4) - 5


def pending(mesh, op="sum"):
    """A and B as the addends of one tensor."""
    return DTensor.from_local([Tensor(A), Tensor(B)], mesh, [Partial(op)])


def count(log, phase=None):
    """The collectives of a log, of one phase or of both."""
    return [c.op for c in log if phase in (None, c.phase)]
