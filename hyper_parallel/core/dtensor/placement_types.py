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
"""Placements: what one mesh axis does to a tensor.

For local values v_0 ... v_{n-1} along an axis of size n (section 2 of the design):
Replicate means v_0 (all equal), Shard(d) means concat(v, d), Partial(op) means reduce(op, v).
"""
from __future__ import annotations

from dataclasses import dataclass

from hyper_parallel.errors import LayoutError

REDUCE_OPS = ("sum", "avg", "max", "min", "prod", "all")
# Partials of one layout must come from one family, or the value would depend on the reduction order.
REDUCE_FAMILIES = {"sum": "linear", "avg": "linear", "max": "max", "min": "min", "prod": "prod", "all": "all"}


class Placement:
    """Base of all placements; values are frozen and compared as whole values of one concrete type."""

    __slots__ = ()

    def is_shard(self, dim: int | None = None) -> bool:  # pylint: disable=unused-argument
        """True when the tensor (or just tensor dimension `dim`) is cut along the axis."""
        return False

    def is_replicate(self) -> bool:
        """True when every rank along the axis holds the same value."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:  # pylint: disable=unused-argument
        """True when the value is still to be reduced (with `reduce_op`, if given)."""
        return False

    def is_ragged_shard(self) -> bool:
        """True for a cut with explicit per-rank sizes."""
        return False


def _check_int(name: str, value, least: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        bound = "" if least is None else f" of at least {least}"
        raise LayoutError(f"{name} must be an int{bound}. Got {value!r}.")


@dataclass(frozen=True, repr=False)
class Shard(Placement):
    """Contiguous ceil-size chunks along one tensor dimension; the tail may be short or empty.

    Args:
        dim: tensor dimension; a negative one counts from the end and is resolved by the layout.
        uneven_shard: accepted for compatibility; every Shard here may be uneven, so it changes nothing.

    Raises:
        LayoutError: when `dim` is not an int.

    Examples:
        >>> Shard(0), Shard(0) == Shard(0), Shard(0) == Shard(1)
        (Shard(dim=0), True, False)
    """

    dim: int
    uneven_shard: bool = False

    def __post_init__(self):
        _check_int("Shard dim", self.dim)

    def is_shard(self, dim=None):
        return dim is None or dim == self.dim

    def __eq__(self, other):
        return type(other) is Shard and other.dim == self.dim  # pylint: disable=unidiomatic-typecheck

    def __hash__(self):
        return hash((Shard, self.dim))

    def __repr__(self):
        return f"Shard(dim={self.dim})"

    def __str__(self):
        return f"S({self.dim})"


@dataclass(frozen=True, repr=False)
class StridedShard(Placement):
    """A cut made inside `split_factor` earlier pieces, which later mesh axes have cut before.

    It only notes an order of cuts that differs from mesh order; the layout refuses a factor that disagrees.

    Args:
        dim: tensor dimension.
        split_factor: number of pieces the dimension is in before this axis cuts it.

    Raises:
        LayoutError: when `dim` is not an int or `split_factor` is below 1.

    Examples:
        >>> StridedShard(0, split_factor=2)
        StridedShard(dim=0, split_factor=2)
    """

    dim: int
    split_factor: int
    uneven_shard: bool = False

    def __post_init__(self):
        _check_int("StridedShard dim", self.dim)
        _check_int("StridedShard split_factor", self.split_factor, 1)

    def is_shard(self, dim=None):
        return dim is None or dim == self.dim

    def __eq__(self, other):
        same_type = type(other) is StridedShard  # pylint: disable=unidiomatic-typecheck
        return same_type and (other.dim, other.split_factor) == (self.dim, self.split_factor)

    def __hash__(self):
        return hash((StridedShard, self.dim, self.split_factor))

    def __repr__(self):
        return f"StridedShard(dim={self.dim}, split_factor={self.split_factor})"

    def __str__(self):
        return f"SS({self.dim}, {self.split_factor})"


@dataclass(frozen=True, repr=False)
class RaggedShard(Placement):
    """A cut of the leading dimensions, flattened, in explicit per-rank units.

    Args:
        dims: leading tensor dimensions `(0, .., k)` that are flattened and cut together.
        local_units: units that each rank along the axis holds.

    Raises:
        LayoutError: when `dims` is not such a prefix or the units are not non-negative ints with a positive sum.

    Examples:
        >>> RaggedShard((0,), (3, 1)).local_units
        (3, 1)
    """

    dims: tuple
    local_units: tuple

    def __post_init__(self):
        object.__setattr__(self, "dims", tuple(self.dims))
        object.__setattr__(self, "local_units", tuple(self.local_units))
        if not self.dims or self.dims != tuple(range(len(self.dims))):
            raise LayoutError(f"RaggedShard dims must be a prefix (0, .., k). Got {self.dims}.")
        for units in self.local_units:
            _check_int("RaggedShard units", units, 0)
        if sum(self.local_units) < 1:
            raise LayoutError(f"RaggedShard units must have a positive sum. Got {self.local_units}.")

    def is_ragged_shard(self):
        return True

    def __repr__(self):
        return f"RaggedShard(dims={self.dims}, local_units={self.local_units})"

    def __str__(self):
        return f"RS({self.dims}, {self.local_units})"


@dataclass(frozen=True, repr=False)
class Replicate(Placement):
    """Every rank along the axis holds the same, whole value.

    Examples:
        >>> Replicate(), Replicate() == Replicate()
        (Replicate(), True)
    """

    def is_replicate(self):
        return True

    def __repr__(self):
        return "Replicate()"

    def __str__(self):
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """The value is the reduction of the ranks' local values, not yet made.

    Args:
        reduce_op: "sum", "avg", "max", "min", "prod" or "all" (logical and); case does not matter.

    Raises:
        LayoutError: for any other reduce op.

    Examples:
        >>> Partial(), Partial("MAX")
        (Partial(reduce_op='sum'), Partial(reduce_op='max'))
    """

    reduce_op: str = "sum"

    def __post_init__(self):
        op = self.reduce_op.lower() if isinstance(self.reduce_op, str) else self.reduce_op
        if op not in REDUCE_OPS:
            raise LayoutError(f"Partial reduce_op must be one of {', '.join(REDUCE_OPS)}. Got {self.reduce_op!r}.")
        object.__setattr__(self, "reduce_op", op)

    def is_partial(self, reduce_op=None):
        return reduce_op is None or reduce_op == self.reduce_op

    def __repr__(self):
        return f"Partial(reduce_op={self.reduce_op!r})"

    def __str__(self):
        return "P" if self.reduce_op == "sum" else f"P({self.reduce_op})"
