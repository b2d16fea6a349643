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
"""Text of synthetic checkouts: the matmul rules in each calling convention, with their defects, and some other rules.

A rule's body is the same in each convention; how it is called, what it calls its operands and what it returns differ.
"""

MATMUL = '''"""Synthetic rules of the matmul family."""
from {layout} import Layout
from .parallel_ops import DistributedOp


def _axes(entry):
    """Names in one entry of a tensor map."""
    return [name for name in (entry if isinstance(entry, tuple) else (entry,)) if name != "None"]


def _template(layout):
    return Layout(layout.mesh_shape, layout.alias_name, layout.rank_list)


def _contracted(op_name, x_entry, w_entry):
    """The common cut of the contracted dimension."""
    if x_entry != w_entry:
        raise ValueError(f"{{op_name}}: contracted dimensions are cut by {{x_entry}} and {{w_entry}}")
    return _axes(x_entry)
{propagate}

class MatMulExtDistributedOp(DistributedOp):
    """x @ w."""

    def infer_layout(self, {plain_params}):
        """Layout of the product."""
        x_layout, w_layout = {plain_values}[:2]
        x_map, w_map = x_layout.alias_tensor_map, w_layout.alias_tensor_map
        if len(w_map) != 2:
            raise ValueError(f"{{self.op_name}}: the right operand must be a matrix")
        pending = _contracted(self.op_name, x_map[-1], w_map[-2])
        out_layout = _template(x_layout)(*x_map[:-1], w_map[-1]){call_propagate}
        for axis in pending:
            out_layout.set_partial_by_dev_axis(axis, "sum")
        return {plain_result}


class MatMulDistributedOp(DistributedOp):
    """x @ w with transposed flags."""

    def infer_layout(self, {plain_params}):
        """Layout of the product."""
        x_layout, w_layout = {plain_values}[:2]
        transpose_a, transpose_b = {flags}
        x_map, w_map = x_layout.alias_tensor_map, w_layout.alias_tensor_map
        row, x_k = (x_map[-1], x_map[-2]) if transpose_a else (x_map[-2], x_map[-1])
        col, w_k = (w_map[-2], w_map[-1]) if transpose_b else (w_map[-1], w_map[-2])
        pending = _contracted(self.op_name, x_k, w_k)
        out_layout = _template(x_layout)(row, col){call_propagate}
        for axis in pending:
            out_layout.set_partial_by_dev_axis(axis, "sum")
        return {plain_result}


class BaseBatchMatMulDistributedOp(DistributedOp):
    """What both batched products share."""

    def _merge(self, x_entry, w_entry):
        """The cut of a batch dimension."""
        if x_entry != w_entry:
            raise ValueError(f"{{self.op_name}}: incompatible batch sharding")
        return x_entry

    def _build(self, x_layout, w_layout, x_n, w_p, x_k, w_k):
        """Layout of the product, from what is kept and what is contracted."""
        x_map, w_map = x_layout.alias_tensor_map, w_layout.alias_tensor_map
        batch = [self._merge(*pair) for pair in zip(x_map[:-2], w_map[:-2])]
        pending = _contracted(self.op_name, x_k, w_k)
        out_layout = _template(x_layout)(*batch, x_n, w_p){call_propagate}
        for axis in pending:
            out_layout.set_partial_by_dev_axis(axis, "sum")
        return out_layout


class BatchMatMulExtDistributedOp(BaseBatchMatMulDistributedOp):
    """Batched x @ w."""

    def infer_layout(self, {plain_params_default}):
        """Layout of the product."""
        x_layout, w_layout = {plain_values}[:2]
        x_map, w_map = x_layout.alias_tensor_map, w_layout.alias_tensor_map
        out_layout = self._build(x_layout, w_layout, x_map[-2], w_map[-1], x_map[-1], w_map[-2])
        return {plain_result}


class BatchMatMulDistributedOp(BaseBatchMatMulDistributedOp):
    """Batched x @ w with transposed flags."""

    def infer_layout(self, {plain_params}):
        """Layout of the product."""
        x_layout, w_layout = {plain_values}[:2]
        transpose_a, transpose_b = {flags}
        x_map, w_map = x_layout.alias_tensor_map, w_layout.alias_tensor_map
        row, x_k = (x_map[-1], x_map[-2]) if transpose_a else (x_map[-2], x_map[-1])
        col, w_k = (w_map[-2], w_map[-1]) if transpose_b else (w_map[-1], w_map[-2])
        out_layout = self._build(x_layout, w_layout, row, col, x_k, w_k)
        return {plain_result}


class LinearDistributedOp(DistributedOp):
    """x @ w.T + bias, w of shape (out, in)."""

    def infer_layout(self, {linear_params}):
        """Layout of the product."""
        x_layout, w_layout, bias_layout = {linear_values}
        x_map, w_map = x_layout.alias_tensor_map, w_layout.alias_tensor_map
        pending = _contracted(self.op_name, x_map[-1], w_map[1])
        if bias_layout is not None and bias_layout.alias_tensor_map[0] != w_map[0]:
            raise ValueError(f"{{self.op_name}}: the bias is not cut as the output is")
        out_layout = _template(x_layout)(*x_map[:-1], w_map[0]){call_propagate}
        for axis in pending:
            out_layout.set_partial_by_dev_axis(axis, "sum")
        return {linear_result}

    def get_expand_impl(self, func, {linear_expand}):
        """Divide the bias by the number of ranks that contract, so that their sum holds it once."""
        x_layout, _, bias_layout = {linear_values}
        scale = 1
        for axis in _axes(x_layout.alias_tensor_map[-1]):
            scale *= x_layout.mesh_shape[x_layout.alias_name.index(axis)]
        if scale == 1 or bias_layout is None:
            return None
        return lambda x, w, bias: func(x, w, bias / scale)
'''

PROPAGATE = '''

def _propagate_partial_from_inputs(out_layout, x_layout, w_layout):
    """Carry the operands' pending reductions over."""
    for layout in (x_layout, w_layout):
        for axis, op in zip(layout.alias_name, layout.partial):
            if op is not None:
                known = out_layout.get_partial_by_dev_id(axis)
                if known not in (None, op):
                    raise ValueError(f"axis {axis} is pending in {known} and in {op}")
                out_layout.set_partial_by_dev_axis(axis, op)

'''

OTHER = '''"""Synthetic rules of other operations."""
from {layout} import Layout
from .parallel_ops import DistributedOp


class TransposeDistributedOp(DistributedOp):
    """Permuted dimensions."""

    def infer_layout(self, {plain_params}):
        """Layout of the permuted tensor."""
        (x_layout, order) = {values_and_first}
        cuts = [x_layout.alias_tensor_map[i] for i in order]
        return {other_result}


class MulDistributedOp(DistributedOp):
    """The product of elements."""

    def infer_layout(self, {plain_params}):
        """Layout of the product; all kinds of pending products pass."""
        x_layout, y_layout = {plain_values}[:2]
        if x_layout.alias_tensor_map != y_layout.alias_tensor_map:
            raise ValueError("operands are cut differently")
        out_layout = Layout(x_layout.mesh_shape, x_layout.alias_name, x_layout.rank_list)(*x_layout.alias_tensor_map)
        for axis, ops in zip(x_layout.alias_name, zip(x_layout.partial, y_layout.partial)):
            if any(ops):
                out_layout.set_partial_by_dev_axis(axis, ops[0] or ops[1])
        return {plain_result}


class NegDistributedOp(DistributedOp):
    """The sign changed; pending operands are refused."""

    def infer_layout(self, {plain_params}):
        """Layout of the operand."""
        x_layout = {plain_values}[0]
        self._check_partial_inputs([x_layout])
        cuts = x_layout.alias_tensor_map
        return {other_result}
'''

YAML = """__default__:
  distributed_op_file: parallel_other
TransposeView:
  dist_op_name: _transpose
  distributed_op_class: TransposeDistributedOp
Mul:
  distributed_op_class: MulDistributedOp
Neg:
  distributed_op_class: NegDistributedOp
Mystery:
  distributed_op_class: MysteryDistributedOp
"""

MATMUL_YAML = """MatMul:
  distributed_op_class: MatMulDistributedOp
  distributed_op_file: parallel_matmul
matmul:
  distributed_op_class: MatMulExtDistributedOp
  distributed_op_file: parallel_matmul
"""

_LEGACY = {
    "plain_params": "layouts, extra_args", "plain_params_default": "layouts, extra_args=None",
    "plain_values": "layouts", "flags": "extra_args", "plain_result": "out_layout",
    "values_and_first": "layouts[0], extra_args[0]",
    "other_result": "Layout(x_layout.mesh_shape, x_layout.alias_name, x_layout.rank_list)(*cuts)",
}
_THREE_PHASE = {
    "plain_params": "cache_values", "plain_params_default": "cache_values", "plain_values": "cache_values",
    "flags": "cache_values[2:]", "plain_result": "((out_layout,), None)", "values_and_first": "cache_values[:2]",
    "other_result": "((Layout(x_layout.mesh_shape, x_layout.alias_name, x_layout.rank_list)(*cuts),), None)",
}
_LINEAR_LEGACY = {"linear_params": "layouts, extra_args", "linear_values": "layouts", "linear_result": "out_layout",
                  "linear_expand": "output_layout, layouts, extra_args"}
_LINEAR_THREE_PHASE = {"linear_params": "cache_values", "linear_values": "cache_values",
                       "linear_result": "((out_layout,), None)", "linear_expand": "infer_result, cache_values"}
CONVENTIONS = {
    "legacy": {**_LEGACY, **_LINEAR_LEGACY},
    "mixed": {**_LEGACY, **_LINEAR_THREE_PHASE, "plain_params": "layouts, extra_args=None"},
    "three-phase": {**_THREE_PHASE, **_LINEAR_THREE_PHASE},
}
