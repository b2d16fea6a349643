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
"""Answer questions about a checkout's layout rules: `python answer.py CHECKOUT QUESTIONS ANSWERS`.

Runs alone in the checkout, on numpy, with its own classes and no device, process group or launcher. Questions name an
operation, the layouts of its operands and, per rank, their local values; the answer is what the checkout's
`infer_layout` says, and what each rank computes when the checkout has its say in how (`get_expand_impl`).
"""
from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import json
import pathlib
import sys

import numpy as np
import stand_ins

NAMES = "xyz"
HERE = pathlib.Path(__file__).resolve().parent


class _KernelError(Exception):
    """The kernel itself refused its local arguments."""


class _Argument:
    """What a rule sees of a distributed tensor besides its layout."""

    def __init__(self, layout, value, shape):
        self.layout, self._local_tensor, self.shape = layout, value, shape
        self.device_mesh, self.placements, self.ndim = layout.mesh, getattr(layout, "placements", None), len(shape)

    def to_local(self):
        """The local value."""
        return self._local_tensor


def main(checkout: str, questions: str, answers: str) -> None:
    """Answer every question for every rank that it asks about."""
    # The folder of this script holds modules that the checkout must not see by accident.
    sys.path[0] = checkout
    asked = json.loads(pathlib.Path(questions).read_text(encoding="utf-8"))
    references = _references() if any(question.get("reference") for question in asked["questions"]) else None
    modules = [asked["first"], asked["layout"]]
    stood_in, shells = stand_ins.load(checkout, modules)
    told = {"stood_in": stood_in, "shells": shells, "answers": []}
    for rank in range(asked["ranks"]):
        # Meshes remember the rank that they were made on.
        stand_ins.forget()
        stand_ins.play(rank)
        importlib.import_module(asked["first"])
        desk = _Desk(asked["layout"], rank, references)
        told["answers"].append([desk.answer(question) for question in asked["questions"]])
    pathlib.Path(answers).write_text(json.dumps(told), encoding="utf-8")


def _meanings():
    spec = importlib.util.spec_from_file_location("_meanings", HERE / "meanings.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["_meanings"] = module
    spec.loader.exec_module(module)
    return module.named


def _references() -> dict | str:
    """The exact verifier's meanings, loaded before the checkout's package takes the name of ours; or why not."""
    sys.path.insert(0, str(HERE.parents[1]))
    try:
        return importlib.import_module("hyper_parallel.verify.registry").load_references()
    except Exception as error:  # pylint: disable=broad-exception-caught  # the checkout's interpreter may be too old
        return f"the meaning cannot be loaded by Python {sys.version.split()[0]}: {_told(error)}"
    finally:
        sys.path.pop(0)
        stand_ins.forget()


class _Desk:
    """Answers for one rank.

    Args:
        layout_module: where the checkout's Layout is.
        rank: the rank that is played.
        references: the exact verifier's meanings by name, or why there are none.
    """

    def __init__(self, layout_module: str, rank: int, references: dict | str | None):
        self.layout_class, self.rank = importlib.import_module(layout_module).Layout, rank
        self.meaning, self.references, self.operations, self.templates = _meanings(), references, {}, {}

    def answer(self, question: dict) -> dict:
        """Refused, not judged, or output layouts and, where locals are given, local results."""
        if self.rank >= np.prod(question["mesh"]):
            return {}
        if question.get("reference") and isinstance(self.references, str):
            return {"unjudged": self.references}
        try:
            op = self._operation(question)
        except Exception as error:  # pylint: disable=broad-exception-caught  # a foreign module may raise anything
            return {"unjudged": _told(error)}
        try:
            layouts = [self._layout(operand, question["mesh"]) for operand in question["operands"]]
            result = self._infer(op, layouts, question)
        except Exception as error:  # pylint: disable=broad-exception-caught  # whatever it raises, it labels nothing
            return {"refused": _told(error)}
        try:
            return self._judgeable(op, layouts, result, question)
        except _KernelError as error:
            return {"refused": str(error)}
        except Exception as error:  # pylint: disable=broad-exception-caught  # here the stand-ins may be at fault
            return {"unjudged": _told(error)}

    def _operation(self, question: dict):
        key = question["module"], question["class"], question["op"]
        if key not in self.operations:
            self.operations[key] = getattr(importlib.import_module(key[0]), key[1])(key[2])
        return self.operations[key]

    def _layout(self, operand, mesh):
        if operand is None or operand["map"] is None:
            return None
        layout = self._template(tuple(mesh))(*[tuple(e) if isinstance(e, list) else e for e in operand["map"]])
        for name, op in zip(NAMES, operand["partial"]):
            if op:
                layout.set_partial_by_dev_axis(name, op)
        return layout

    def _template(self, mesh: tuple):
        if mesh not in self.templates:
            known = inspect.signature(self.layout_class).parameters
            options = {"init_backend": False} if "init_backend" in known else {}
            ranks = list(range(int(np.prod(mesh))))
            self.templates[mesh] = self.layout_class(mesh, tuple(NAMES[:len(mesh)]), ranks, **options)
        return self.templates[mesh]

    def _infer(self, op, layouts, question):
        statics = _tuples(question["statics"])
        shapes = [operand["shape"] for operand in question["operands"] if operand is not None]
        extra = {"WithShape": [shapes], "Reshape": shapes[:1]}.get(question["suffix"], [])
        if _count(type(op).infer_layout) == 2:
            return op.infer_layout(self._cache_values(op, layouts, [*statics, *extra], question))
        # The older dispatcher leaves None out of the other arguments.
        return op.infer_layout(tuple(layouts), [*(value for value in statics if value is not None), *extra])

    def _cache_values(self, op, layouts, statics, question):
        """What the op's own first phase makes of the call; the documented form where that phase needs a device."""
        if question["ask_preprocess"]:
            try:
                tensors = [None if operand is None else _argument(layout, operand)
                           for layout, operand in zip(layouts, question["operands"])]
                return op.preprocess(_in_order(question, tensors, statics), {})[2]
            except Exception:  # pylint: disable=broad-exception-caught  # then as documented
                pass
        return [*layouts, *statics]

    def _judgeable(self, op, layouts, result, question) -> dict:
        outputs = [out if isinstance(out, self.layout_class) else None for out in _outputs(result)]
        if not any(outputs):
            return {"unjudged": "infer_layout returned no layout"}
        told = {"layouts": [out and {"map": _plain(out.alias_tensor_map), "partial": list(out.partial)}
                            for out in outputs]}
        if question.get("locals"):
            told["values"] = self._local_results(op, layouts, result, question)
        return told

    def _local_results(self, op, layouts, result, question) -> list:
        values = [None if value is None else _tensor(value, operand.get("dtype"))
                  for value, operand in zip(question["locals"][self.rank], question["operands"])]
        run = self._implementation(op, layouts, result, question)
        statics = _tuples(question["statics"])
        if question["suffix"] == "Reshape":
            statics[-1] = result[1]  # the shape of the local result, which this convention hands to the kernel
        found = run(*_in_order(question, values, statics))
        found = found if isinstance(found, (tuple, list)) else (found,)
        return [np.asarray(value).tolist() for value in found]

    def _implementation(self, op, layouts, result, question):
        def kernel(*arguments, **named):
            try:
                found = self._computed(question, [_bare(a) for a in arguments],
                                       {name: _bare(value) for name, value in named.items()})
            except Exception as error:
                raise _KernelError(_told(error)) from error
            return tuple(map(_tensor, found)) if isinstance(found, (tuple, list)) else _tensor(found)

        expand = getattr(op, "get_expand_impl", None)
        if expand is None:
            return kernel
        if _count(type(op).get_expand_impl) == 4:
            made = expand(kernel, result, [*layouts, *question["statics"]])
        else:
            made = expand(kernel, result, tuple(layouts), list(question["statics"]))
        return made or kernel

    def _computed(self, question: dict, arguments: list, named: dict):
        """What the operation means, on plain arrays."""
        if not question.get("reference"):
            return self.meaning(question["meaning"]).function(*arguments, *named.values())
        names = [name for name, _, _ in question["order"]]
        rest = {name: _as_tuple(value) for name, value in question["rest"].items()}
        with np.errstate(all="ignore"):
            return self.references[question["meaning"]].function({**rest, **dict(zip(names, arguments)), **named})


@functools.lru_cache(maxsize=None)
def _count(function) -> int:
    """Number of parameters, self included, of the function that decorators wrap."""
    return len(inspect.signature(function).parameters)


def _argument(layout, operand: dict) -> _Argument:
    """A distributed tensor of zeros."""
    return _Argument(layout, _tensor(np.zeros(operand["shape"]), operand.get("dtype")), tuple(operand["shape"]))


def _in_order(question: dict, tensors: list, statics: list) -> tuple:
    """The arguments as they are passed."""
    if "order" not in question:
        return (*tensors, *statics)
    found = []
    for _, kind, places in question["order"]:
        values = [(statics if kind == "static" else tensors)[place] for place in places]
        found.append(tuple(values) if kind == "tensors" else values[0])
    return tuple(found)


def _tuples(statics: list) -> list:
    return list(map(_as_tuple, statics))


def _as_tuple(value):
    """JSON has no tuples, which arguments are."""
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def _bare(value):
    """A plain array, or several, or what is none."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_bare, value))
    return np.asarray(value) if isinstance(value, np.ndarray) or hasattr(value, "numpy") else value


def _tensor(value, dtype=None):
    """A local tensor of the framework if it is there, else of the stand-ins."""
    array, torch = np.asarray(value, dtype), sys.modules.get("torch")
    real = torch is not None and hasattr(torch, "__file__")
    return torch.from_numpy(array.copy()) if real else array.view(stand_ins.Tensor)


def _outputs(result) -> tuple:
    """Output layouts, in the older forms and in ((layouts...), extra)."""
    if isinstance(result, (tuple, list)):
        return tuple(result[0]) if result and isinstance(result[0], (tuple, list)) else tuple(result)
    return (result,)


def _plain(tensor_map) -> list:
    return [list(entry) if isinstance(entry, (tuple, list)) else entry for entry in tensor_map]


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(*sys.argv[1:])
