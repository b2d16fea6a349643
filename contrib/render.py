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
"""Files that `apply` adds to a checkout: our helper and tests, rendered for the checkout's conventions.

The licence block is the one at the head of the checkout's own matmul file, with the current year.
"""
from __future__ import annotations

import pathlib
import re
from string import Template

from contrib.checkout import HELPER, LEGACY, MIXED, THREE_PHASE, Checkout, Refused

FOLDER = pathlib.Path(__file__).resolve().parent / "templates"
INHERIT, CHECK = "inherit", "check"
DECORATOR = {INHERIT: "keeps_partial", CHECK: "checks_partial"}
EXPAND = "counts_bias_once"

# Per convention: parameters of infer_layout, its operands, its other arguments, and the output layout in its result.
_INFER = {
    LEGACY: ("layouts, extra_args=None", "layouts", ", extra_args", "result"),
    THREE_PHASE: ("cache_values", "cache_values", "", "result[0][0]"),
    MIXED: ("values, *rest", "values", ", *rest", "result[0][0] if isinstance(result, tuple) else result"),
}
# Parameters of get_expand_impl, its operands and its output layout.
_EXPAND = {
    LEGACY: ("output_layout, layouts, extra_args", "layouts", "output_layout"),
    THREE_PHASE: ("infer_result, cache_values", "cache_values", "infer_result[0][0]"),
}
_EXPAND_CALL = {LEGACY: "kernel, out, layouts, ()", THREE_PHASE: "kernel, ((out,), None), list(layouts)"}
_UNIT_INFER = {
    LEGACY: "    return cls(name).infer_layout(layouts, statics)",
    THREE_PHASE: "    (out,), _ = cls(name).infer_layout([*layouts, *statics])\n    return out",
    MIXED: "    three_phase = (\n{classes}    )\n    if cls in three_phase:\n"
           "        (out,), _ = cls(name).infer_layout([*layouts, *statics])\n        return out\n"
           "    return cls(name).infer_layout(layouts, statics)",
}
_INHERIT_BODY = """\
        inherited = _inherited(name, {values})
        bare = type({values})(_without_partial(value) for value in {values})
        result = infer_layout(self, bare{rest})
        out_layout = {out}
        for axis, op in inherited.items():
            out_layout.set_partial_by_dev_axis(axis, op)"""
_CHECK_BODY = """\
        _inherited(name, {values})
        result = infer_layout(self, {values}{rest})
        out_layout = {out}"""
_WITHOUT_PARTIAL = '''

def _without_partial(value: Any) -> Any:
    """A layout like this one without Partial state; anything else as it is."""
    if not _pending(value):
        return value
    bare = copy.copy(value)
    # Clearing may write into the list that the copy shares with the original.
    for field, content in vars(value).items():
        if isinstance(content, list):
            setattr(bare, field, list(content))
    bare.reset_partial()
    return bare
'''


def licence(checkout: Checkout, year: int) -> str:
    """The comment block at the head of the checkout's matmul file, for a file that is new this year.

    Raises:
        Refused: when the file has no such block with a year.
    """
    block = re.match(r"(?:#[^\n]*\n)+", checkout.read(checkout.matmul))
    if block is None or not re.search(_YEARS, block[0]):
        raise Refused(f"{checkout.matmul} has no licence block with a year to take over.")
    return re.sub(_YEARS, f"Copyright {year}", block[0], count=1)


_YEARS = r"Copyright (\d{4})(?:-\d{4})?"


def with_year(source: str, year: int) -> str:
    """A source whose licence block names the span of years until now.

    Examples:
        >>> with_year("# Copyright 2025 A\\n", 2026), with_year("# Copyright 2026 A\\n", 2026)
        ('# Copyright 2025-2026 A\\n', '# Copyright 2026 A\\n')
    """
    def span(match):
        return match[0] if int(match[1]) >= year else f"Copyright {match[1]}-{year}"

    block = re.match(r"(?:#[^\n]*\n)+", source)
    end = block.end() if block else 0
    return re.sub(_YEARS, span, source[:end], count=1) + source[end:]


def helper(checkout: Checkout, variant: str, year: int) -> str:
    """The helper module.

    Args:
        checkout: the checkout.
        variant: INHERIT, or CHECK where the rules themselves already inherit.
        year: the current year.
    """
    structure, inherit = checkout.structure, variant == INHERIT
    params, values, rest, out = _INFER[_infer_convention(structure)]
    body = (_INHERIT_BODY if inherit else _CHECK_BODY).format(values=values, rest=rest, out=out)
    expand_params, expand_values, expand_out = _EXPAND[structure.expand]
    doc = ("Let the output layout of a matmul inherit the Partial state of its factors." if inherit else
           "Refuse factors and bias whose Partial state the output of a matmul cannot keep.")
    return _filled("helper", header=licence(checkout, year), layout_module=structure.layout, values=values,
                   inherits=f"{'inherited' if inherit else 'kept'} where the product is linear, ", params=params,
                   imports=_imports(inherit), decorator=DECORATOR[variant], decorator_doc=doc, infer_body=body,
                   expand_params=expand_params, expand_values=expand_values, expand_out=expand_out,
                   without_partial=_WITHOUT_PARTIAL if inherit else "").rstrip("\n") + "\n"


def _infer_convention(structure) -> str:
    kinds = set(structure.infer.values())
    return kinds.pop() if len(kinds) == 1 else MIXED


def _imports(inherit: bool) -> str:
    return ("import copy\n" if inherit else "") + "import functools\nfrom typing import Any, Callable\n"


def unit_test(checkout: Checkout, year: int) -> tuple[str, str]:
    """Path and text of the unit tests.

    Raises:
        Refused: when the checkout has no folder for them that this tool knows.
    """
    folder, structure = checkout.unit_folder, checkout.structure
    if folder is None:
        raise Refused("The checkout has no folder of unit tests of operations that this tool knows.")
    # The older suite has plain functions that run on the back end at hand; the newer one has classes that replace it.
    plain = structure.generation == LEGACY
    imports = "from unittest.mock import MagicMock\n\nimport pytest\n" if plain else (
        "import unittest\nfrom unittest.mock import MagicMock, patch\n")
    package, _, mesh = checkout.mesh_module.rpartition(".")
    common = _filled("unit_common", header=licence(checkout, year), imports=imports, layout_module=structure.layout,
                     mesh_import="" if plain or not checkout.mesh_caches else f"from {package} import {mesh}\n",
                     matmul_module=checkout.matmul_module, infer=_unit_infer(structure),
                     expand_call=_EXPAND_CALL[structure.expand])
    if plain:
        tests = _filled("unit_functions")
    else:
        clear = "".join(f"        device_mesh.{name}.clear()\n        self.addCleanup(device_mesh.{name}.clear)\n"
                        for name in checkout.mesh_caches)
        tests = _filled("unit_class", mock_path=f"{checkout.mesh_module}.{checkout.mock_target}", clear_caches=clear)
    return f"{folder}/test_{HELPER}.py", common + tests


def _unit_infer(structure) -> str:
    classes = [name for name, kind in structure.infer.items() if kind == THREE_PHASE]
    text = _UNIT_INFER[_infer_convention(structure)]
    return text.replace("{classes}", "".join(f"        {name},\n" for name in classes))


def system_tests(checkout: Checkout, year: int) -> dict:
    """Path -> text of the system tests; empty when the checkout has no folder for them that this tool knows."""
    if checkout.system_folder is None:
        return {}
    kind, folder = checkout.system_folder
    header = licence(checkout, year)
    if kind == "msrun":
        launcher, worker = f"test_ops_{HELPER}_shell.py", f"{HELPER}_shard_in_python.py"
        marks = {"platform": "platform_ascend910b", "cards": "allcards"}
        words = {"imports": "import numpy as np\nimport pytest\nfrom mindspore import Tensor, mint\n", "device": "npu",
                 "tensor": "Tensor", "matmul": "mint.matmul", "linear": "mint.nn.functional.linear", "array": "asnumpy"}
    else:
        launcher, worker = f"test_{HELPER}.py", f"parallel_op_{HELPER}.py"
        marks = {"platform": "cpu_linux", "cards": "onecard"}
        words = {"imports": "import numpy as np\nimport pytest\nimport torch\n", "device": "cpu",
                 "tensor": "torch.from_numpy", "matmul": "torch.matmul", "linear": "torch.nn.functional.linear",
                 "array": "numpy"}
    launch = _filled(f"system_{kind}", header=header, worker=worker) + _filled("system_cases", **marks)
    return {f"{folder}/{launcher}": launch, f"{folder}/{worker}": _filled("system_worker", header=header, **words)}


def _filled(name: str, **words: str) -> str:
    return Template((FOLDER / f"{name}.tmpl").read_text(encoding="utf-8")).substitute(words)
