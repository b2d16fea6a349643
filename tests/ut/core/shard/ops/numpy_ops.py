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
"""The operations of the rule tests in numpy: parameter values, arrays and static, give the result. The oracle."""
from __future__ import annotations

import math

import numpy as np

from hyper_parallel.verify.kernels import KERNELS
from hyper_parallel.verify.registry import load_references

LOWEST, HIGHEST = -10.0 ** 9, 10.0 ** 9


def _one(function, param="input"):
    return lambda v: function(v[param])


def _pair(function, x="input", y="other"):
    return lambda v: function(v[x], v[y])


def _alpha(sign):
    return lambda v: v["input"] + sign * v["alpha"] * v["other"]


def _axis(v):
    dim = v["dim"]
    return None if dim is None or dim == () else tuple(dim) if isinstance(dim, (tuple, list)) else dim


def _reduce(function, **options):
    return lambda v: function(v["input"], axis=_axis(v), keepdims=bool(v.get("keepdim", False)), **options)


def _softmax(x, dim):
    e = np.exp(x - (np.max(x, dim, keepdims=True) if x.size else 0))
    return e / e.sum(dim, keepdims=True)


def _log_softmax(x, dim):
    return np.log(_softmax(x, dim))


def _norm(x, dims, weight, bias=None, centred=True, eps=1e-5):
    mean = x.mean(dims, keepdims=True) if centred else 0
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(dims, keepdims=True) + eps)
    y = (x - mean) * rstd
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, mean, rstd


def _layer_norm_ext(v):
    dims = tuple(range(-len(v["normalized_shape"]), 0))
    return _norm(v["input"], dims, v["weight"], v["bias"])


def _rms_norm(v):
    y, _, rstd = _norm(v["input"], tuple(range(-v["weight"].ndim, 0)), v["weight"], centred=False)
    return y, rstd


def _set(v):
    out = v["input"].copy()
    out[_index(v["index"])] = v["value"]
    return out


def _index(index):
    return tuple(list(i) if isinstance(i, (list, tuple)) else i for i in index) if isinstance(index, tuple) else index


def _sizes(v):
    total, size = v["input"].shape[v["dim"]], v["split_size"]
    steps = np.cumsum(size)[:-1] if isinstance(size, (tuple, list)) else range(size, total, size)
    return np.split(v["input"], list(steps), v["dim"])


def _chunks(v):
    total = v["input"].shape[v["dim"]]
    step = -(-total // v["chunks"])
    return np.split(v["input"], list(range(step, total, step)), v["dim"])


def _pad(v):
    pad = v["padding"]
    widths = [(0, 0)] * (v["input"].ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    return np.pad(v["input"], widths, constant_values=v["value"])


def _swap(v):
    return np.swapaxes(v["input"], v["dim0"], v["dim1"])


def _squeeze(v):
    dims = range(v["input"].ndim) if v["dim"] is None else np.atleast_1d(v["dim"])
    return v["input"].reshape([s for d, s in enumerate(v["input"].shape)
                               if s != 1 or d not in [i % v["input"].ndim for i in dims]])


def _flatten(v):
    shape = v["input"].shape
    start, end = v["start_dim"] % len(shape), v["end_dim"] % len(shape)
    return v["input"].reshape(shape[:start] + (math.prod(shape[start:end + 1]),) + shape[end + 1:])


def _strided(v):
    shrink = v["shrink_axis_mask"]
    index = tuple(b if shrink >> i & 1 else slice(None if v["begin_mask"] >> i & 1 else b,
                                                  None if v["end_mask"] >> i & 1 else e, s)
                  for i, (b, e, s) in enumerate(zip(v["begin"], v["end"], v["strides"] or [1] * len(v["begin"]))))
    return v["input"][index]


def _one_hot(v):
    made = np.eye(v["num_classes"])[v["input"]]
    return made if v["dim"] == -1 else np.moveaxis(made, -1, v["dim"])


def _gather(v):
    axis, batch = v["dim"], v["batch_dims"]
    if not batch:
        return np.take(v["input"], v["index"], axis)
    parts = [np.take(a, b, axis - 1) for a, b in zip(v["input"], v["index"])]
    shape = v["input"].shape[:axis] + v["index"].shape[1:] + v["input"].shape[axis + 1:]
    return np.stack(parts) if parts else np.zeros(shape)


def _gather_d(v):
    corner = tuple(slice(None) if d == v["dim"] else slice(n) for d, n in enumerate(v["index"].shape))
    return np.take_along_axis(v["input"][corner], v["index"], v["dim"])


def _fill(v):
    return np.broadcast_to(np.asarray(v["value"], v["input"].dtype), v["input"].shape).copy()


def _clamp(v):
    x = v["input"] if v["min"] is None else np.maximum(v["input"], v["min"])
    return x if v["max"] is None else np.minimum(x, v["max"])


def _masked(v):
    return np.where(v["mask"], v["value"], v["input"])


def _floor_divide(v):
    mode = v.get("rounding_mode", "floor")
    quotient = np.asarray(v["input"]) / np.asarray(v["other"])
    return quotient if mode is None else np.trunc(quotient) if mode == "trunc" else np.floor(quotient)


def _cumsum(v):
    return np.cumsum(v["input"], v["dim"])


def _count_nonzero(v):
    return np.count_nonzero(v["input"], _axis(v))


def _expand(v):
    shape = v["shape"]
    offset = len(shape) - v["input"].ndim
    return np.broadcast_to(v["input"], [v["input"].shape[i - offset] if s == -1 else s for i, s in enumerate(shape)])


def _pair_of(function, index):
    def run(v):
        keep = bool(v["keepdim"])
        return function(v["input"], v["dim"], keepdims=keep), index(v["input"], v["dim"], keepdims=keep)

    return run


def _argmax(v):
    return np.argmax(v["input"], axis=v["dim"], keepdims=bool(v["keepdim"]))


def _logsumexp(v):
    return np.log(np.sum(np.exp(v["input"]), axis=_axis(v), keepdims=bool(v["keepdim"])))


def _topk(v):
    order = np.argsort(-v["input"], v["dim"], kind="stable")
    order = np.take(order, range(v["k"]), v["dim"])
    return np.take_along_axis(v["input"], order, v["dim"]), order


def _sort(v):
    order = np.argsort(v["input"], v["dim"], kind="stable")
    return np.take_along_axis(v["input"], order, v["dim"]), order


def _swiglu(v):
    gate, up = np.split(v["input"], 2, v["dim"])
    return gate / (1 + np.exp(-gate)) * up



_PAIRS = {
    ("Mul", "Muls", "InplaceMul", "InplaceMuls"): np.multiply,
    ("Div", "Divs", "RealDiv", "InplaceDiv", "InplaceDivs"): np.divide,
    ("Add", "AssignAdd"): np.add, ("Sub",): np.subtract, ("Maximum",): np.maximum, ("Minimum",): np.minimum,
    ("Greater",): np.greater, ("Equal", "EqScalar"): np.equal, ("LogicalAnd",): np.logical_and,
    ("LogAddExp",): np.logaddexp, ("RemainderTensorScalar",): np.mod,
}
_UNARY = {
    "Neg": np.negative, "Exp": np.exp, "InplaceExp": np.exp, "Tanh": np.tanh, "Abs": np.abs, "Square": np.square,
    "Sign": np.sign, "Floor": np.floor, "Ceil": np.ceil, "Round": np.round, "Sin": np.sin, "Cos": np.cos,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Sqrt": np.sqrt, "Log": np.log, "ReLU": lambda x: np.maximum(x, 0),
    "SiLU": lambda x: x / (1 + np.exp(-x)), "IsFinite": np.isfinite, "LogicalNot": np.logical_not,
    "Clone": np.copy, "Identity": np.copy, "StopGradient": np.copy, "TExt": np.transpose,
    "Max": lambda x: np.max(x, initial=LOWEST), "Min": lambda x: np.min(x, initial=HIGHEST), "ZerosLike": np.zeros_like,
    "OnesLikeExt": np.ones_like, "EmptyLike": np.zeros_like, "InplaceZero": np.zeros_like,
}

NUMPY = {name: _pair(f) for names, f in _PAIRS.items() for name in names}
NUMPY |= {name: _one(f) for name, f in _UNARY.items()}
NUMPY |= dict.fromkeys(("AddExt", "AddScalar", "InplaceAddExt", "InplaceAddsExt"), _alpha(1))
NUMPY |= dict.fromkeys(("SubExt", "SubScalar", "InplaceSubExt", "InplaceSubScalar"), _alpha(-1))
NUMPY |= dict.fromkeys(("FloorDiv", "DivMod"), _floor_divide)
NUMPY |= dict.fromkeys(("ClampScalar", "ClampTensor", "InplaceClampScalar"), _clamp)
NUMPY |= dict.fromkeys(("MaskedFillScalar", "MaskedFill", "InplaceMaskedFillScalar"), _masked)
NUMPY |= dict.fromkeys(("InplaceFillScalar", "InplaceFillTensor"), _fill)
NUMPY |= dict.fromkeys(("InplaceCopy", "Assign"), lambda v: np.broadcast_to(v["other"], v["input"].shape).copy())
NUMPY |= dict.fromkeys(("SumExt", "ReduceSum", "DeprecatedSum"), _reduce(np.sum))
NUMPY |= dict.fromkeys(("MeanExt", "ReduceMean", "DeprecatedMean"), _reduce(np.mean))
NUMPY |= dict.fromkeys(("ReduceMax", "DeprecatedMax"), _reduce(np.max, initial=LOWEST))
NUMPY |= dict.fromkeys(("ReduceMin", "DeprecatedMin"), _reduce(np.min, initial=HIGHEST))
NUMPY |= dict.fromkeys(("ProdExt", "ReduceProd"), _reduce(np.prod))
NUMPY |= dict.fromkeys(("AnyExt", "ReduceAny", "Any"), _reduce(np.any))
NUMPY |= dict.fromkeys(("Transpose", "TransposeView", "DeprecatedTranspose"),
                       lambda v: np.transpose(v["input"], v["dims"] or None))
NUMPY |= dict.fromkeys(("Reshape", "View"), lambda v: v["input"].reshape(v["shape"]))
NUMPY |= dict.fromkeys(("ExpandDims", "ExpandDimsView"), lambda v: np.expand_dims(v["input"], v["dim"]))
NUMPY |= dict.fromkeys(("BroadcastTo", "BroadcastToView"), _expand)
NUMPY |= dict.fromkeys(("Tile", "Repeat"), lambda v: np.tile(v["input"], v["dims"]))
NUMPY |= dict.fromkeys(("SplitTensor", "SplitWithSize", "SplitTensorView", "SplitWithSizeView"), _sizes)
NUMPY |= dict.fromkeys(("Chunk", "ChunkView"), _chunks)
NUMPY |= {
    "Pow": _pair(np.power, "input", "exponent"), "PowTensorScalar": _pair(np.power, "input", "exponent"),
    "Select": lambda v: np.where(v["condition"], v["input"], v["other"]),
    "Lerp": lambda v: (1 - v["weight"]) * v["input"] + v["weight"] * v["end"],
    "AddcmulExt": lambda v: v["input"] + v["value"] * v["tensor1"] * v["tensor2"],
    "BiasAdd": lambda v: v["input"] + v["bias"].reshape((1, -1) + (1,) * (v["input"].ndim - 2)),
    "ReduceAll": _reduce(np.all), "CountNonZero": _count_nonzero, "Var": _reduce(np.var, ddof=1),
    "LogSumExp": _logsumexp, "ArgMaxExt": _argmax, "MaxDim": _pair_of(np.max, np.argmax),
    "CumsumExt": _cumsum, "CumSum": _cumsum,
    "TransposeExtView": _swap, "Squeeze": _squeeze, "FlattenExt": _flatten,
    "ViewAs": lambda v: v["input"].reshape(v["other"].shape),
    "ExpandAs": lambda v: np.broadcast_to(v["input"], v["other"].shape),
    "RepeatInterleaveInt": lambda v: np.repeat(v["input"], v["repeats"], v["dim"]),
    "Concat": lambda v: np.concatenate(v["tensors"], v["dim"]), "StackExt": lambda v: np.stack(v["tensors"], v["dim"]),
    "AddN": lambda v: sum(v["tensors"]), "Split": lambda v: np.split(v["input"], v["output_num"], v["dim"]),
    "UnstackExtView": lambda v: [np.take(v["input"], i, v["dim"]) for i in range(v["input"].shape[v["dim"]])],
    "GetItem": lambda v: v["input"][_index(v["index"])], "SetItem": _set,
    "Narrow": lambda v: np.take(v["input"], range(v["start"], v["start"] + v["length"]), v["dim"]),
    "SelectExtView": lambda v: np.take(v["input"], v["index"], v["dim"]), "StridedSlice": _strided,
    "Slice": lambda v: v["input"][tuple(slice(b, b + s if s >= 0 else None) for b, s in zip(v["begin"], v["size"]))],
    "IndexSelect": lambda v: np.take(v["input"], v["index"], v["dim"]), "Gather": _gather,
    "GatherD": _gather_d,
    "GatherNd": lambda v: v["input"][tuple(np.moveaxis(v["index"], -1, 0))],
    "Embedding": lambda v: v["weight"][v["input"]], "OneHotExt": _one_hot,
    "Triu": lambda v: np.triu(v["input"], v["diagonal"]), "TrilExt": lambda v: np.tril(v["input"], v["diagonal"]),
    "ReverseV2": lambda v: np.flip(v["input"], v["dim"]), "Roll": lambda v: np.roll(v["input"], v["shifts"], v["dims"]),
    "ConstantPadND": _pad, "Softmax": lambda v: _softmax(v["input"], v["dim"]),
    "LogSoftmaxExt": lambda v: _log_softmax(v["input"], v["dim"]), "Swiglu": _swiglu, "LayerNormExt": _layer_norm_ext,
    "RmsNorm": _rms_norm, "TopkExt": _topk, "SortExt": _sort, "TraceExt": _one(np.trace),
    "Diagonal": lambda v: np.diagonal(v["input"], v["offset"], v["dim1"], v["dim2"]),
    "LeakyReLUExt": lambda v: np.where(v["input"] > 0, v["input"], v["negative_slope"] * v["input"]),
    "ToDtype": lambda v: v["input"].astype(v["dtype"]), "Cast": lambda v: v["input"].astype(v["dtype"]),
    "TypeAs": lambda v: v["input"].astype(v["other"].dtype),
    "FullLike": lambda v: np.full(v["input"].shape, v["fill_value"]), "NewOnes": lambda v: np.ones(v["size"]),
    "NewEmpty": lambda v: np.zeros(v["size"]),
}



def _array_in(index):
    return next(i for i in index if isinstance(i, np.ndarray)) if isinstance(index, tuple) else index


def _shard(pick, x, index, dim, begin, size):
    """Rows [begin, begin + length) of x, moved to where they belong, among zeros."""
    index = np.where(index < 0, index + size, index)
    count = max(begin + x.shape[dim], np.max(index, initial=0) + 1)
    whole = np.zeros(x.shape[:dim] + (count,) + x.shape[dim + 1:], x.dtype)
    whole[(slice(None),) * dim + (slice(begin, begin + x.shape[dim]),)] = x
    return pick(whole, index, dim)


def _scatter_nd(indices, updates, shape):
    out = np.zeros(shape, updates.dtype)
    np.add.at(out, tuple(np.moveaxis(indices, -1, 0)), updates)
    return out


FORMS = {
    "mean": lambda v, dims, keepdim, dtype, count: np.sum(v["input"], dims, keepdims=keepdim) / count,
    "reshape": lambda v, shape: v["input"].reshape(shape),
    "zeros_like": lambda v: np.zeros_like(v["input"]),
    "new_zeros": lambda v: np.zeros(v["size"]),
    "shard_rows": lambda v, dim, begin, size: _shard(np.take, v["input"], v["index"], dim, begin, size),
    "shard_item": lambda v, dim, begin, size: _shard(np.take, v["input"], _array_in(v["index"]), dim, begin, size),
    "shard_elements": lambda v, dim, begin, size: _shard(
        lambda x, i, d: _gather_d({"input": x, "index": i, "dim": d}), v["input"], v["index"], dim, begin, size),
    "scatter_nd": lambda v, shape: _scatter_nd(v["indices"], v["updates"], shape),
    "shard_embedding": lambda v, dim, begin, padding: _shard(np.take, v["weight"], v["input"], dim, begin, 0),
}

# The forms of random numbers, losses and attention say the same as the verifier's.
load_references()
FORMS.update({name: KERNELS[name] for name in ("random", "loss", "no_loss", "attention")})
