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
"""Shortest paths between layouts, as tuples of small ints: the search behind `planner`, which states moves and costs.

A state is (stacks, pending, placed): per tensor dimension the stack of its axes as one int (innermost axis in the
lowest bits, the mark of the dimension at the bottom), then the set of axes with a reduction of the source pending and
the set of axes whose reduction of the target is in place, as bit masks.

A* needs a bound that never exceeds what is left to receive. With V the unpadded local volume, a gather receives the
growth of V, a reduce-scatter its shrinkage (an all-reduce is one and then the other), an all-to-all (1 - 1/n) V;
slices shrink V for free, masks of shards grow it for free. No volume falls below `least`, the one with every axis cut
that may be. `Space.bound` adds three parts; sizes of a set of axes multiply:

* Reductions pending, q ranks in all: they start at q * least or above, and their shrinkages telescope.
* Growth up to the target's volume: from where the last reduction leaves off, or, with none pending, from the present
  volume and from every slice still to be made (p ranks: they shrink by (p - 1) least or more). An axis that a mask
  will free at no charge counts as free already; while it is cut (m ranks in all) a gather is cheaper by m at most.
* Moves, at (1 - 1/n) least each: every axis that must leave its stack and be cut again, twice when it cannot go
  straight (back to its own dimension, or onto an axis that now lies below it), and every axis that cannot be cut in
  its place yet because others must leave or arrive before: cut elsewhere meanwhile it moves once, uncut it makes the
  others' moves dearer by more. A gather and a later slice cost no less than two moves. While nothing is pending, axes
  replicated at both ends (r ranks) stay uncut unless so many moves are left that cutting them in between pays.
"""
from __future__ import annotations

import heapq
from collections import Counter
from math import prod
from typing import NamedTuple

from hyper_parallel.core.dtensor.cuts import ceil_div
from hyper_parallel.core.dtensor.placement_types import REDUCE_FAMILIES

# One int orders paths: elements received, then collectives, then steps. A path has far fewer than 2**12 steps.
_STEP = 1
_COLLECTIVE = 1 << 12
_ELEMENT = 1 << 24
# States reached before the search gives up and the direct path is taken: sound, but not always the shortest.
MAX_STATES = 20000


class Space:
    """The layouts between two layouts on one mesh, as far as axes of more than one rank go.

    Args:
        source: the LayoutValue to start from.
        target: the LayoutValue to reach, on the same mesh; a Partial that both share takes no part.
        shape: global shape of the tensor.
    """

    def __init__(self, source, target, shape):
        sizes = source.mesh.mesh_shape
        self.source, self.target = source, target
        self.axes = [a for a, n in enumerate(sizes) if n > 1 and not (source.partial[a] and target.partial[a])]
        self.sizes = [sizes[a] for a in self.axes]
        self.dims = self._useful_dims(shape)
        self.shape = [shape[d] for d in self.dims]
        self.bits = (len(self.axes) + len(self.dims)).bit_length()
        self.low = (1 << self.bits) - 1
        self.rest = prod(size for d, size in enumerate(shape) if d not in self.dims)
        self._name_axes()
        self.start = self._codes(source), self.pending, 0
        self.goal = self._codes(target), 0, self.masked
        self.product = _Products(self.sizes)
        self.scale = self.product[self.all]
        self.full = prod(shape) * self.scale  # volumes are integers when counted times scale
        self.final = self.full // self.product[self.cut]
        self.stacks = _Stacks(self)

    def _useful_dims(self, shape) -> list[int]:
        """Dimensions that either layout cuts, and uncut ones to park axes on: as many of one size as there are axes."""
        kept, parked = [], Counter()
        for d, (size, here, there) in enumerate(zip(shape, self.source.dims, self.target.dims)):
            if here or there:
                kept.append(d)
            elif size > 1 and parked[size] < len(self.axes):
                parked[size] += 1
                kept.append(d)
        return kept

    def _name_axes(self) -> None:
        """Sets of axes by what the two layouts say of them."""
        old, new = self.source.partial, self.target.partial
        self.goal_dims = [self.target.axis_dim[a] for a in self.axes]
        self.all = (1 << len(self.axes)) - 1
        self.pending = self._set(lambda a: old[a])
        self.scattered = self._set(lambda a: old[a] != "all")
        self.masked = self._set(lambda a: new[a])
        self.padded = self._set(lambda a: new[a] == "sum")
        self.cut = self._set(lambda a: self.target.axis_dim[a] is not None)
        self.one_family = len({REDUCE_FAMILIES[op] for op in old + new if op}) < 2

    def _set(self, holds) -> int:
        return sum(1 << i for i, axis in enumerate(self.axes) if holds(axis))

    def _codes(self, layout) -> tuple:
        codes = []
        for code, d in enumerate(self.dims, len(self.axes)):
            for axis in layout.dims[d]:
                if axis in self.axes:
                    code = code << self.bits | self.axes.index(axis)
            codes.append(code)
        return tuple(codes)

    def decode(self, state) -> tuple:
        """Cuts per tensor dimension and pending op per mesh axis; axes that take no part are not cut."""
        codes, pending, placed = state
        dims: list[tuple] = [()] * len(self.source.dims)
        for d, code in zip(self.dims, codes):
            dims[d] = tuple(self.axes[i] for i in self.stacks.unpacked(code))
        partial = [op if op == goal else None for op, goal in zip(self.source.partial, self.target.partial)]
        for i, axis in enumerate(self.axes):
            if (pending | placed) >> i & 1:
                partial[axis] = (self.source if pending >> i & 1 else self.target).partial[axis]
        return dims, partial

    def bound(self, state) -> int:
        """A lower bound on what is left to the goal; the module's docstring says why it is one."""
        codes, pending, placed = state
        held = owed = hops = 0
        expecting = []
        for code in codes:
            _, _, here, leaving, moves, hop, coming = self.stacks[code]
            held, owed, hops = held | here, owed + moves, hops + hop
            if coming:
                expecting.append((leaving & ~self.padded, coming))
        for blocked, coming in expecting:
            if blocked or len(coming) > 1:
                owed += self._delayed(blocked, coming, held, pending)
        free = self.all & ~(held | pending | placed)
        hops += pending.bit_count() * (_COLLECTIVE + _STEP) + (free & (self.cut | self.masked)).bit_count() * _STEP
        return self._volume(held, free, pending, placed, owed) * _ELEMENT + hops

    def _volume(self, held: int, free: int, pending: int, placed: int, owed: int) -> int:
        """Elements still to receive, at least; `owed` / scale is the sum of (1 - 1/n) over the moves among them."""
        m = self.product[self.padded & ~placed]
        least = self.full // self.product[self.all & ~placed]
        r = 1
        if pending:
            left = least * (self.product[pending] - 1) + max(0, self.final // m - least)
        else:
            r = self.product[free & ~self.cut & ~self.padded]
            growth = (self.final - self.full // self.product[held & ~self.padded]) // m
            left = max(0, growth + least * r * (self.product[free & self.cut] - 1))
        if owed:
            left += least * (r * owed if owed <= self.scale else (r - 1) * self.scale + owed) // self.scale
        return -(-left // self.scale)

    def _delayed(self, blocked: int, coming, held: int, pending: int) -> int:
        """Moves (times scale) owed by axes that would be free to come but must wait, or be cut elsewhere meanwhile."""
        owed = 0
        late_slice = late_scatter = blocked
        for axis in coming:
            bit = 1 << axis
            if held & bit:
                late_slice = late_scatter = bit
            elif pending & bit:
                owed += self.stacks.move[axis] if late_scatter else 0
                late_slice = bit
            elif late_slice:
                owed += self.stacks.move[axis]
        return owed

    def moves(self, state):
        """Weight and next state of every step from a state."""
        codes, pending, placed = state
        extents = [self.stacks[code].extent for code in codes]
        volume = self.rest * prod(extents)
        masks = self.masked & ~placed if self.one_family or not pending else 0
        free = self.all & ~(pending | placed)
        for d, code in enumerate(codes):
            if code > self.low:
                free &= ~self.stacks[code].held
                yield from self._leave_shard(state, d, extents, volume, masks)
        for axis, n in enumerate(self.sizes):
            if pending >> axis & 1:
                yield from self._reduce(state, axis, n, extents, volume)
            elif free >> axis & 1:
                if masks >> axis & 1:
                    yield _STEP, (codes, pending, placed | 1 << axis)
                for d, code in enumerate(codes):
                    yield _STEP, (_with(codes, d, code << self.bits | axis), pending, placed)

    def _leave_shard(self, state, d: int, extents, volume: int, masks: int):
        codes, pending, placed = state
        axis = codes[d] & self.low
        n, left = self.sizes[axis], _with(codes, d, codes[d] >> self.bits)
        if (masks & self.padded) >> axis & 1:
            yield _STEP, (left, pending, placed | 1 << axis)
        yield (n - 1) * volume * _ELEMENT + _COLLECTIVE + _STEP, (left, pending, placed)
        for j, extent in enumerate(extents):
            if j != d:
                yield _scattered(volume, extent, n), (_with(left, j, codes[j] << self.bits | axis), pending, placed)

    def _reduce(self, state, axis: int, n: int, extents, volume: int):
        codes, pending, placed = state
        pending &= ~(1 << axis)
        yield 2 * (n - 1) * ceil_div(volume, n) * _ELEMENT + _COLLECTIVE + _STEP, (codes, pending, placed)
        if self.scattered >> axis & 1:
            for d, extent in enumerate(extents):
                yield _scattered(volume, extent, n), (_with(codes, d, codes[d] << self.bits | axis), pending, placed)


class Stack(NamedTuple):
    """What the stack of one tensor dimension tells: sets of axes are bit masks, axes are positions in `Space.axes`."""

    dim: int  # position in `Space.dims`
    extent: int  # local size at coordinate 0
    held: int  # axes in the stack
    leaving: int  # those that cannot stay
    owed: int  # moves that those make at least, times scale
    hops: int  # collectives and steps that those take at least
    coming: tuple  # axes of the goal still to come, outermost first


class _Products(dict):
    """The product of the sizes of a set of axes."""

    def __init__(self, sizes):
        super().__init__({0: 1})
        self.sizes = sizes

    def __missing__(self, axes: int) -> int:
        rest = axes & (axes - 1)
        self[axes] = self.sizes[(axes ^ rest).bit_length() - 1] * self[rest]
        return self[axes]


class _Stacks(dict):
    """The `Stack` of a code, told from the one without its innermost axis."""

    def __init__(self, space: Space):
        super().__init__()
        self.space = space
        self.move = [space.scale - space.scale // n for n in space.sizes]
        self.under = [0] * len(space.sizes)  # per axis those that lie below it in the goal
        self.goals = [self.unpacked(code) for code in space.goal[0]]
        for d, goal in enumerate(self.goals):
            self[len(space.axes) + d] = Stack(d, space.shape[d], 0, 0, 0, 0, tuple(goal))
            for i, axis in enumerate(goal):
                self.under[axis] = sum(1 << a for a in goal[:i])

    def unpacked(self, code: int) -> list[int]:
        """The axes of a stack, outermost first."""
        found = []
        while code > self.space.low:
            found.append(code & self.space.low)
            code >>= self.space.bits
        return found[::-1]

    def __missing__(self, code: int) -> Stack:
        space, axis = self.space, code & self.space.low
        dim, _, held, leaving, owed, hops, coming = self[code >> space.bits]
        if coming and coming[0] == axis and not leaving:
            coming = coming[1:]
        else:
            moves, hop = self._owed(dim, axis, leaving)
            leaving, owed, hops = leaving | 1 << axis, owed + moves * self.move[axis], hops + hop
        held |= 1 << axis
        extent = ceil_div(space.shape[dim], space.product[held])
        self[code] = Stack(dim, extent, held, leaving, owed, hops, coming)
        return self[code]

    def _owed(self, dim: int, axis: int, below: int) -> tuple[int, int]:
        """Moves and hops, at least, that take an axis from a place where it cannot stay."""
        space = self.space
        if space.padded >> axis & 1:
            return 0, _STEP
        goal = space.goal_dims[axis]
        if goal is None:
            return 0, _COLLECTIVE + _STEP + (_STEP if space.masked >> axis & 1 else 0)
        if goal == space.dims[dim] or below & self.under[axis]:
            return 2, _COLLECTIVE + 2 * _STEP
        return 1, _COLLECTIVE + _STEP


def _with(codes: tuple, d: int, code: int) -> tuple:
    return (*codes[:d], code, *codes[d + 1:])


def _scattered(volume: int, extent: int, n: int) -> int:
    """Weight of a collective that hands out n padded chunks of a dimension."""
    received = (n - 1) * (volume // extent * ceil_div(extent, n)) if volume else 0
    return received * _ELEMENT + _COLLECTIVE + _STEP


# -- paths ------------------------------------------------------------------------------------------------------------


def cheapest_path(space: Space) -> list[tuple]:
    """States from start to goal; least in (elements, collectives, steps), with slices as early as they can be."""
    return _slices_first(space, _search(space) or _direct(space))


def _search(space: Space) -> list[tuple] | None:
    """A*; the order of moves and of discovery decides ties, so every rank finds the same path.

    A state is left as soon as a move keeps the best total, and taken up again where it was left: with a good bound most
    moves are never looked at.
    """
    start, goal = space.start, space.goal
    bounds = {start: space.bound(start)}
    best, came = {start: 0}, {start: None}
    heap, order = [(bounds[start], bounds[start], 0, start, None)], 0
    while order < MAX_STATES:
        total, left, _, state, moves = heapq.heappop(heap)
        if state == goal:
            return _trace(came, goal)
        reached = total - left
        if reached > best[state]:
            continue
        moves = moves or space.moves(state)
        for weight, after in moves:
            length = reached + weight
            if after in best and length >= best[after]:
                continue
            if after not in bounds:
                bounds[after] = space.bound(after)
            order += 1
            best[after], came[after] = length, state
            heapq.heappush(heap, (length + bounds[after], bounds[after], order, after, None))
            if length + bounds[after] <= total:
                heapq.heappush(heap, (total, left, order, state, moves))
                break
    return None


def _trace(came: dict, state) -> list[tuple]:
    path = []
    while state is not None:
        path.append(state)
        state = came[state]
    return path[::-1]


def _direct(space: Space) -> list[tuple]:
    """Gather what is in the way, reduce, slice, mask: legal between any two layouts."""
    # pylint: disable=consider-using-enumerate  # the codes change while they are walked
    codes, pending, placed = space.start
    path = [space.start]
    for d in range(len(codes)):
        while space.stacks[codes[d]].leaving:
            codes = _with(codes, d, codes[d] >> space.bits)
            path.append((codes, pending, placed))
    while pending:
        pending &= pending - 1
        path.append((codes, pending, placed))
    for d in range(len(codes)):
        for axis in space.stacks[codes[d]].coming:
            codes = _with(codes, d, codes[d] << space.bits | axis)
            path.append((codes, pending, placed))
    while placed != space.masked:
        missing = space.masked & ~placed
        placed |= missing & -missing
        path.append((codes, pending, placed))
    return path


def _slices_first(space: Space, path: list[tuple]) -> list[tuple]:
    """The path with every slice ahead of the steps that it does not depend on, which can only get cheaper by it."""
    for end in range(2, len(path)):
        for i in range(end, 1, -1):
            before, middle, after = path[i - 2:i + 1]
            d = _sliced(middle, after)
            if d is None or before[0][d] != middle[0][d] or _sliced(before, middle) is not None:
                break
            axis = 1 << (after[0][d] & space.low)
            if before[1] & axis or any(space.stacks[code].held & axis for code in before[0]):
                break
            path[i - 1] = _with(before[0], d, after[0][d]), *before[1:]
    return path


def _sliced(before: tuple, after: tuple) -> int | None:
    """The dimension that the step between two states slices, or None when it is another kind of step."""
    changed = [d for d, (old, new) in enumerate(zip(before[0], after[0])) if old != new]
    return changed[0] if len(changed) == 1 and before[1:] == after[1:] and after > before else None
