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
    modules = [asked["first"], asked["layout"]]
    stood_in, shells = stand_ins.load(checkout, modules)
    told = {"stood_in": stood_in, "shells": shells, "answers": []}
    for rank in range(asked["ranks"]):
        # Meshes remember the rank that they were made on.
        stand_ins.forget()
        stand_ins.play(rank)
        importlib.import_module(asked["first"])
        desk = _Desk(asked["layout"], rank)
        told["answers"].append([desk.answer(question) for question in asked["questions"]])
    pathlib.Path(answers).write_text(json.dumps(told), encoding="utf-8")


def _meanings():
    spec = importlib.util.spec_from_file_location("_meanings", HERE / "meanings.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["_meanings"] = module
    spec.loader.exec_module(module)
    return module.named


class _Desk:
    """Answers for one rank.

    Args:
        layout_module: where the checkout's Layout is.
        rank: the rank that is played.
    """

    def __init__(self, layout_module: str, rank: int):
        self.layout_class, self.rank = importlib.import_module(layout_module).Layout, rank
        self.meaning, self.operations, self.templates = _meanings(), {}, {}

    def answer(self, question: dict) -> dict:
        """Refused, not judged, or output layouts and, where locals are given, local results."""
        if self.rank >= np.prod(question["mesh"]):
            return {}
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
        statics = list(question["statics"])
        if question["suffix"] == "WithShape":
            statics.append([operand["shape"] for operand in question["operands"]])
        if _count(type(op).infer_layout) == 2:
            return op.infer_layout(self._cache_values(op, layouts, statics, question))
        return op.infer_layout(tuple(layouts), statics)

    def _cache_values(self, op, layouts, statics, question):
        """What the op's own first phase makes of the call; the documented form where that phase needs a device."""
        if question["ask_preprocess"]:
            try:
                tensors = [_Argument(layout, _tensor(np.zeros(operand["shape"])), tuple(operand["shape"]))
                           for layout, operand in zip(layouts, question["operands"])]
                return op.preprocess((*tensors, *statics), {})[2]
            except Exception:  # pylint: disable=broad-exception-caught  # then as documented
                pass
        return [*layouts, *statics]

    def _judgeable(self, op, layouts, result, question) -> dict:
        outputs = [out for out in _outputs(result) if isinstance(out, self.layout_class)]
        if not outputs:
            return {"unjudged": "infer_layout returned no layout"}
        told = {"layouts": [{"map": _plain(out.alias_tensor_map), "partial": list(out.partial)} for out in outputs]}
        if question.get("locals"):
            told["values"] = self._local_results(op, layouts, result, question)
        return told

    def _local_results(self, op, layouts, result, question) -> list:
        values = [None if value is None else _tensor(value) for value in question["locals"][self.rank]]
        run = self._implementation(op, layouts, result, question)
        found = run(*values, *question["statics"])
        found = found if isinstance(found, (tuple, list)) else (found,)
        return [np.asarray(value).tolist() for value in found]

    def _implementation(self, op, layouts, result, question):
        def kernel(*arguments, **named):
            plain = [np.asarray(a) if isinstance(a, np.ndarray) or hasattr(a, "numpy") else a for a in arguments]
            try:
                return _tensor(self.meaning(question["meaning"]).function(*plain, *named.values()))
            except Exception as error:
                raise _KernelError(_told(error)) from error

        expand = getattr(op, "get_expand_impl", None)
        if expand is None:
            return kernel
        if _count(type(op).get_expand_impl) == 4:
            made = expand(kernel, result, [*layouts, *question["statics"]])
        else:
            made = expand(kernel, result, tuple(layouts), list(question["statics"]))
        return made or kernel


@functools.lru_cache(maxsize=None)
def _count(function) -> int:
    """Number of parameters, self included, of the function that decorators wrap."""
    return len(inspect.signature(function).parameters)


def _tensor(value):
    """A local tensor of the framework if it is there, else of the stand-ins."""
    array, torch = np.asarray(value), sys.modules.get("torch")
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
