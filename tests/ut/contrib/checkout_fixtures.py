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
"""Synthetic checkouts for tests: built once, copied for every test that changes one."""
from __future__ import annotations

import functools
import pathlib
import shutil
import tempfile

from contrib.checkout import Checkout
from tests.ut.contrib import synthetic

YEAR = 2026
MATMUL = "hyper_parallel/core/shard/ops/parallel_matmul.py"
HELPER = "hyper_parallel/core/shard/ops/matmul_partial.py"


@functools.lru_cache(maxsize=None)
def _original(shape: str) -> tempfile.TemporaryDirectory:
    # It lives as long as the process.
    folder = tempfile.TemporaryDirectory(prefix="checkout_")  # pylint: disable=consider-using-with
    synthetic.build(shape, folder.name)
    return folder


def pristine(shape: str) -> Checkout:
    """A checkout that the test only reads."""
    return Checkout(_original(shape).name)


def fresh(shape: str, folder) -> Checkout:
    """A checkout of the test's own."""
    root = pathlib.Path(folder) / "hyper-parallel"
    shutil.copytree(_original(shape).name, root)
    return Checkout(root)


def edited(checkout: Checkout, path: str, *swaps: tuple) -> Checkout:
    """The checkout with pieces of one file replaced, committed."""
    text = checkout.read(path)
    for old, new in swaps:
        assert old in text, old
        text = text.replace(old, new)
    (checkout.root / path).write_text(text, encoding="utf-8")
    synthetic.commit(checkout.root, "chore: edit")
    return Checkout(checkout.root)
