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
"""Text of synthetic checkouts: tests, lists of the checks, pull-request templates and workflow."""

MARKS = '''"""Synthetic marks."""
import pytest


def arg_mark(plat_marks, level_mark, card_mark, essential_mark):
    """Plain marks."""
    def decorate(test):
        for name in (*plat_marks, level_mark, card_mark, essential_mark):
            test = getattr(pytest.mark, name)(test)
        return test
    return decorate
'''

LEGACY_UNIT = '''"""Unit tests of synthetic matmul rules."""
import pytest
from {layout} import Layout
from hyper_parallel.core.shard.ops.parallel_matmul import MatMulExtDistributedOp, MatMulDistributedOp


def test_contracted_cut_is_pending():
    """
    Feature: MatMulExt
    Description: both operands cut along the contraction
    Expectation: a pending sum
    """
    layout = Layout((2, 4), ("dp", "tp"), list(range(8)))
    out = MatMulExtDistributedOp("MatMulExt").infer_layout((layout("dp", "tp"), layout("tp", "None")), ())
    assert out.partial == [None, "sum"]


def test_stale_expectation():
    """
    Feature: MatMul
    Description: a test that fails before the change too
    Expectation: an error that the rule does not raise
    """
    layout = Layout((2, 4), ("dp", "tp"), list(range(8)))
    with pytest.raises(ValueError):
        MatMulDistributedOp("MatMul").infer_layout((layout("dp", "None"), layout("None", "None")), (False, False))
'''

THREE_PHASE_UNIT = '''"""Unit tests of synthetic matmul rules."""
import unittest
from {layout} import Layout
from hyper_parallel.core.shard.ops.parallel_matmul import MatMulExtDistributedOp


class TestParallelMatMul(unittest.TestCase):
    """MatMulExt."""

    def test_contracted_cut_is_pending(self):
        """
        Feature: MatMulExt
        Description: both operands cut along the contraction
        Expectation: a pending sum
        """
        layout = Layout((2, 4), ("dp", "tp"), list(range(8)))
        (out,), _ = MatMulExtDistributedOp("MatMulExt").infer_layout([layout("dp", "tp"), layout("tp", "None")])
        self.assertEqual(out.partial, [None, "sum"])
'''

FILTER = '''# accepted by the project
"hyper-parallel/hyper_parallel/core/shard/ops/" "arguments-differ"
"hyper-parallel/hyper_parallel/core/shard/ops/" "line-too-long"
"hyper-parallel/tests/" "protected-access"
'''

CHINESE_TEMPLATE = """**关联的 issue**

<!-- 请填写 issue 链接 -->

**修改原因**

<!-- 为什么修改 -->

**修改描述**

<!-- 修改了什么 -->

**测试用例**
"""

ENGLISH_TEMPLATE = """#### What type of PR is this?

> Choose one: `/kind bug`, `/kind task`, `/kind feature`

/kind

---

#### What does this PR do, and why is it needed?

<!-- write for the reviewer -->

---

#### Which issue does this PR fix?

Fixes #

---

#### Test plan and result

---

#### Self-checklist

- [ ] The design was reviewed by a maintainer.
- [ ] Tests are part of this PR.
- [ ] The text above holds the verification evidence.
- [ ] Interface changes were approved and their comments refreshed.
- [ ] Documentation changes were submitted.
"""

WORKFLOW = """name: content check
on: pull_request
jobs:
  check:
    steps:
      - run: |
          if echo "$TITLE $BODY" | grep -iwE 'robotword|vendorword|oracleword'; then exit 1; fi
"""
