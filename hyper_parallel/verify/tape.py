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
"""Reverse-mode differentiation of plain numpy functions, through numpy's own dispatch protocols.

A reference is written once, in numpy, and runs on arrays or on `Tracked` arrays alike. Pullbacks only add, multiply and
move, so gradients of (multi)linear maps of dyadic numbers are exact. What has no derivative here raises `NoDerivative`.
"""
from __future__ import annotations

import operator

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class NoDerivative(TypeError):
    """A numpy function that the tape cannot differentiate."""


class Tracked(NDArrayOperatorsMixin):
    """An array that remembers what it was computed from.

    Args:
        value: the array.
        sources: (tracked array, function from this array's cotangent to its share) per source.
    """

    def __init__(self, value, sources=()):
        self.value, self.sources = np.asarray(value), sources

    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    size = property(lambda self: self.value.size)
    dtype = property(lambda self: self.value.dtype)
    T = property(np.transpose)

    def __array__(self, *_, **__):
        raise NoDerivative("A tracked array was turned into a plain one: use numpy functions on it directly.")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method == "reduce" and ufunc in _REDUCE_OF:
            return _REDUCE_OF[ufunc](*inputs, **kwargs)
        if method != "__call__":
            raise NoDerivative(f"np.{ufunc.__name__}.{method} has no derivative here.")
        if ufunc in _FLAT_UFUNCS:
            return ufunc(*(plain(x) for x in inputs), **kwargs)
        if ufunc is np.matmul:
            return _matmul(*inputs)
        return _elementwise(ufunc, inputs)

    def __array_function__(self, func, _types, args, kwargs):
        if func in _MOVEMENT:
            return _moved(func, args, kwargs)
        if func in _FLAT:
            return func(*_nested_plain(args), **{k: plain(v) for k, v in kwargs.items()})
        if func in _RULES:
            return _RULES[func](*args, **kwargs)
        raise NoDerivative(f"np.{func.__name__} has no derivative here.")

    def __getitem__(self, index):
        return _moved(operator.getitem, (self, index), {})

    def __len__(self):
        return len(self.value)

    def reshape(self, *shape):
        """The elements in another shape."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape)

    def astype(self, dtype):
        """A cast between floats, which passes cotangents on; any other cast is piecewise constant."""
        value = self.value.astype(dtype)
        return Tracked(value, ((self, lambda g: g),)) if np.issubdtype(dtype, np.floating) else value


def plain(x):
    """The array of a tracked one; anything else as it is."""
    return x.value if isinstance(x, Tracked) else x


def _nested_plain(x):
    if isinstance(x, (list, tuple)):
        return type(x)(_nested_plain(v) for v in x)
    return plain(x)


def unbroadcast(g: np.ndarray, shape: tuple) -> np.ndarray:
    """The cotangent of an operand of this shape that was broadcast to `g.shape`."""
    if g.shape == shape:
        return g
    g = g.sum(tuple(range(g.ndim - len(shape))))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axes, keepdims=True) if axes else g


# -- elementwise -----------------------------------------------------------------------------------------------------

def _step(difference):
    """1 above 0 and a half at 0, as the framework shares the gradient of equals."""
    return 0.5 * (difference > 0) + 0.5 * (difference >= 0)


# Per argument the share of the cotangent: (g, out, *arguments) -> array that broadcasts to g.
_DERIVATIVES = {
    np.add: (lambda g, o, a, b: g, lambda g, o, a, b: g),
    np.subtract: (lambda g, o, a, b: g, lambda g, o, a, b: -g),
    np.multiply: (lambda g, o, a, b: g * b, lambda g, o, a, b: g * a),
    np.true_divide: (lambda g, o, a, b: g / b, lambda g, o, a, b: -g * a / b / b),
    np.negative: (lambda g, o, a: -g,),
    np.positive: (lambda g, o, a: g,),
    np.square: (lambda g, o, a: g * 2 * a,),
    np.sqrt: (lambda g, o, a: g / (2 * o),),
    np.reciprocal: (lambda g, o, a: -g * o * o,),
    np.absolute: (lambda g, o, a: g * np.sign(a),),
    np.maximum: (lambda g, o, a, b: g * _step(a - b), lambda g, o, a, b: g * _step(b - a)),
    np.remainder: (lambda g, o, a, b: g, lambda g, o, a, b: -g * np.floor(a / b)),
    np.fmod: (lambda g, o, a, b: g, lambda g, o, a, b: -g * np.trunc(a / b)),
    np.minimum: (lambda g, o, a, b: g * _step(b - a), lambda g, o, a, b: g * _step(a - b)),
}
_FLAT_UFUNCS = {np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.isnan, np.isinf,
                np.isfinite, np.sign, np.floor, np.ceil, np.trunc, np.rint, np.floor_divide, np.logical_not,
                np.logical_and, np.logical_or, np.logical_xor, np.signbit}


def _elementwise(ufunc, inputs):
    if ufunc not in _DERIVATIVES:
        raise NoDerivative(f"np.{ufunc.__name__} has no derivative here.")
    values = [plain(x) for x in inputs]
    out = ufunc(*values)
    return _record(out, inputs, values, _DERIVATIVES[ufunc])


def _record(out, inputs, values, derivatives):
    """`out` with a share of its cotangent for every tracked input."""
    sources = []
    for x, share in zip(inputs, derivatives):
        if isinstance(x, Tracked):
            sources.append((x, lambda g, s=share, shape=x.shape: unbroadcast(np.asarray(s(g, out, *values)), shape)))
    return Tracked(out, tuple(sources))


def elementwise(function, *derivatives):
    """A function of arrays from a function of Python floats; its value never depends on where an element sits.

    numpy's vectorised transcendentals may differ in the last bit between the body and the tail of a loop, which would
    make an exact comparison of a shard with the whole impossible.

    Args:
        function: floats -> float.
        derivatives: per argument (g, out, *arguments) -> its share, on arrays.
    """
    raw = np.frompyfunc(function, len(derivatives), 1)

    def apply(*inputs):
        values = [np.asarray(plain(x)) for x in inputs]
        out = np.asarray(raw(*values)).astype(np.result_type(*values, np.float32))
        return _record(out, inputs, values, derivatives) if any(isinstance(x, Tracked) for x in inputs) else out

    return apply


# -- movement --------------------------------------------------------------------------------------------------------

_JOINERS = {np.concatenate, np.stack, np.where}


def _moved(func, args, kwargs):
    """Any map that copies elements: run it on element numbers to learn where each one came from (0: a filler)."""
    args = _tracked_data(func, args)
    leaves = _leaves(args)
    numbers, start = {}, 1
    for leaf in leaves:
        numbers[id(leaf)] = np.arange(start, start + leaf.size).reshape(leaf.shape)
        start += leaf.size
    ids = func(*_substitute(args, numbers), **({**kwargs, "constant_values": 0} if func is np.pad else kwargs))
    out = func(*_nested_plain(args), **kwargs)
    if isinstance(out, (list, tuple)):
        return [_gathered(o, i, leaves, numbers, start) for o, i in zip(out, ids)]
    return _gathered(out, ids, leaves, numbers, start)


def _tracked_data(func, args):
    if func is np.where:
        return (plain(args[0]),) + tuple(x if isinstance(x, Tracked) else Tracked(x) for x in args[1:])
    if func in _JOINERS:
        return ([x if isinstance(x, Tracked) else Tracked(x) for x in args[0]],) + tuple(args[1:])
    return args


def _leaves(args) -> list:
    found: list = []
    for x in args:
        if isinstance(x, Tracked):
            found += [x] if all(x is not y for y in found) else []
        elif isinstance(x, (list, tuple)):
            found += [y for y in _leaves(x) if all(y is not z for z in found)]
    return found


def _substitute(x, numbers):
    if isinstance(x, Tracked):
        return numbers[id(x)]
    return type(x)(_substitute(v, numbers) for v in x) if isinstance(x, (list, tuple)) else x


def _gathered(out, ids, leaves, numbers, count):
    ids = np.asarray(ids).ravel()

    def share(leaf):
        first = numbers[id(leaf)].flat[0] if leaf.size else 0

        def pull(g):
            weights = np.broadcast_to(g, np.shape(out)).ravel()
            total = np.bincount(ids, weights=weights, minlength=count).astype(np.float64)
            return total[first:first + leaf.size].reshape(leaf.shape)

        return pull

    return Tracked(out, tuple((leaf, share(leaf)) for leaf in leaves))


_MOVEMENT = {
    np.transpose, np.reshape, np.swapaxes, np.moveaxis, np.squeeze, np.expand_dims, np.ravel, np.flip, np.roll, np.pad,
    np.tril, np.triu, np.diagonal, np.take, np.take_along_axis, np.broadcast_to, np.repeat, np.tile, np.concatenate,
    np.stack, np.where, np.split, np.array_split, np.rot90, np.delete, np.atleast_1d, np.copy, np.compress, np.diag,
}
_FLAT = {np.shape, np.ndim, np.size, np.argmax, np.argmin, np.argsort, np.zeros_like, np.ones_like, np.full_like,
         np.result_type, np.count_nonzero, np.array_equal, np.searchsorted, np.all, np.any, np.round, np.isclose,
         np.empty_like}


# -- products and reductions -----------------------------------------------------------------------------------------


def _matmul(a, b):
    """Through einsum, with the letters of np.matmul's broadcasting."""
    x, y = a, b
    if x.ndim == 1 or y.ndim == 1:
        left = np.reshape(x, (1, -1)) if x.ndim == 1 else x
        right = np.reshape(y, (-1, 1)) if y.ndim == 1 else y
        out = np.matmul(left, right)
        shape = out.shape[:-2] + (() if x.ndim == 1 else out.shape[-2:-1]) + (() if y.ndim == 1 else out.shape[-1:])
        return np.reshape(out, shape)
    p, q = plain(x), plain(y)
    shares = (lambda g, o, s, t: g @ np.swapaxes(t, -1, -2), lambda g, o, s, t: np.swapaxes(s, -1, -2) @ g)
    return _record(np.matmul(p, q), (x, y), (p, q), shares)


def _einsum(equation, *operands):
    """Each operand's share is again an einsum; its own ones restore letters that it alone summed away."""
    left, out = equation.replace(" ", "").split("->")
    dims, values = left.split(","), [plain(x) for x in operands]
    sources = []
    for i, x in enumerate(operands):
        if isinstance(x, Tracked):
            names = [out] + [d for j, d in enumerate(dims) if j != i] + [dims[i]]
            rest = [v for j, v in enumerate(values) if j != i] + [np.ones(x.shape)]
            sources.append((x, lambda g, e=f"{','.join(names)}->{dims[i]}", r=rest: np.einsum(e, g, *r)))
    return Tracked(np.einsum(equation, *values), tuple(sources))


def _axes(axis, ndim: int) -> tuple:
    if axis is None:
        return tuple(range(ndim))
    return tuple(a % ndim for a in (axis if isinstance(axis, tuple) else (axis,)))


def _kept(array, axis, ndim: int):
    """A reduced array with the reduced dimensions back, of size 1."""
    return np.expand_dims(array, _axes(axis, ndim))


def _sum(a, axis=None, keepdims=False, **_):
    value = np.sum(a.value, axis, keepdims=keepdims)

    def pull(g):
        return np.broadcast_to(g if keepdims else _kept(g, axis, a.ndim), a.shape)

    return Tracked(value, ((a, pull),))


def _mean(a, axis=None, keepdims=False, **_):
    count = np.prod([a.shape[i] for i in _axes(axis, a.ndim)], dtype=float)
    return _sum(a, axis, keepdims=keepdims) / count


def _extreme(function):
    """amax or amin: elements that attain it share the cotangent evenly."""

    def rule(a, axis=None, keepdims=False, **_):
        value = function(a.value, axis, keepdims=True)
        hit = a.value == value
        share = hit / np.sum(hit, axis, keepdims=True)

        def pull(g):
            return share * (g if keepdims else _kept(g, axis, a.ndim))

        return Tracked(value if keepdims else np.squeeze(value, _axes(axis, a.ndim)), ((a, pull),))

    return rule


def _prod(a, axis=None, keepdims=False, **_):
    """The product of all the others, element by element, so that zeros stay exact."""
    axes = _axes(axis, a.ndim)

    def pull(g):
        others = np.empty(a.shape)
        for index in np.ndindex(*a.shape):
            line = tuple(slice(None) if i in axes else n for i, n in enumerate(index))
            rest = a.value.copy()
            rest[index] = 1
            others[index] = np.prod(rest[line])
        return others * (g if keepdims else _kept(g, axis, a.ndim))

    return Tracked(np.prod(a.value, axis, keepdims=keepdims), ((a, pull),))


def _cumsum(a, axis=None, **_):
    return Tracked(np.cumsum(a.value, axis), ((a, lambda g: np.flip(np.cumsum(np.flip(g, axis), axis), axis)),))


def _sort(a, axis=-1, **_):
    return np.take_along_axis(a, np.argsort(a.value, axis, kind="stable"), axis)


def _trace(a, offset=0, axis1=0, axis2=1, **_):
    return np.sum(np.diagonal(a, offset, axis1, axis2), -1)


_REDUCE_OF = {np.add: _sum, np.multiply: _prod, np.maximum: _extreme(np.max), np.minimum: _extreme(np.min)}
_RULES = {
    np.sum: _sum, np.mean: _mean, np.prod: _prod, np.max: _extreme(np.max), np.min: _extreme(np.min),
    np.cumsum: _cumsum, np.sort: _sort, np.trace: _trace, np.einsum: _einsum,
    np.outer: lambda a, b: np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1)), np.dot: lambda a, b: a @ b,
}


# -- the pullback ----------------------------------------------------------------------------------------------------


def custom(value, *sources):
    """An array with hand-written shares: (array, cotangent -> its share) per source; plain sources are dropped."""
    tracked = tuple((x, pull) for x, pull in sources if isinstance(x, Tracked))
    return Tracked(value, tracked) if tracked else np.asarray(value)


def vjp(function, arrays):
    """Value and pullback of a numpy function.

    Args:
        function: arrays -> array or tuple of arrays.
        arrays: the arguments; floating ones are differentiated.

    Returns:
        (tuple of output arrays, pull), where pull(cotangents) gives one gradient per argument, None for others.

    Raises:
        NoDerivative: when the function uses something that cannot be differentiated.

    Examples:
        >>> outs, pull = vjp(lambda x, w: x @ w, [np.array([[1., 2.]]), np.array([[3.], [4.]])])
        >>> [g.tolist() for g in pull([np.array([[10.]])])]
        [[[30.0, 40.0]], [[10.0], [20.0]]]
    """
    inputs = [Tracked(a) if np.asarray(a).dtype.kind == "f" else a for a in arrays]
    outs = function(*inputs)
    outs = tuple(outs) if isinstance(outs, (tuple, list)) else (outs,)
    order = _topological(outs)
    return tuple(np.asarray(plain(o)) for o in outs), lambda cotangents: _pull(inputs, outs, order, cotangents)


def _topological(outs) -> list:
    order, seen, stack = [], set(), [(o, False) for o in outs if isinstance(o, Tracked)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((source, False) for source, _ in node.sources)
    return order[::-1]


def _pull(inputs, outs, order, cotangents) -> list:
    grads: dict = {}
    for out, g in zip(outs, cotangents):
        if isinstance(out, Tracked) and g is not None:
            grads[id(out)] = grads.get(id(out), 0) + np.asarray(g)
    for node in order:
        g = grads.get(id(node))
        if g is None:
            continue
        for source, share in node.sources:
            grads[id(source)] = grads.get(id(source), 0) + share(g)
    return [np.broadcast_to(grads.get(id(x), 0.0), x.shape) if isinstance(x, Tracked) else None for x in inputs]
