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
"""The example's own arithmetic: its truth, its cuts, and that it finds what is off."""
import importlib.util
import pathlib

import numpy as np
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"


def _module(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(name="chain", scope="module")
def fixture_chain():
    """The part that starts workers and judges their reports."""
    return _module("lora_chain")


@pytest.fixture(name="worker", scope="module")
def fixture_worker():
    """The part that each worker runs."""
    return _module("lora_chain_worker")


def test_both_parts_speak_of_the_same_values(chain, worker):
    """
    Feature: examples/lora_chain.py.
    Description: compare the names of forms and gradients that the worker reports and the parent judges.
    Expectation: the same.
    """
    assert (chain.FORMS, chain.GRADIENTS) == (worker.FORMS, worker.GRADIENTS)


@pytest.mark.parametrize("ranks, widths", [(1, [16]), (2, [8, 8]), (3, [6, 6, 4]), (5, [4, 4, 4, 4, 0]),
                                           (7, [3, 3, 3, 3, 3, 1, 0])])
def test_columns_are_ceil_chunks_that_cover_the_dimension(worker, ranks, widths):
    """
    Feature: examples/lora_chain.py.
    Description: cut DIN = 16 for several numbers of ranks.
    Expectation: chunks of ceil size, a short or empty tail, nothing twice and nothing left out.
    """
    parts = [range(16)[worker.columns(rank, ranks)] for rank in range(ranks)]
    assert [len(part) for part in parts] == widths
    assert [column for part in parts for column in part] == list(range(16))


@pytest.mark.parametrize("name", ["B", "x", "A"])
def test_one_device_gradient_is_the_slope_of_the_forward(worker, name):
    """
    Feature: examples/lora_chain.py.
    Description: compare the truth's gradient with differences of the forward value, which is linear in each operand.
    Expectation: equal for every element.
    """
    data = {key: value.astype(np.float64) for key, value in worker.make_data().items()}
    truth = worker.one_device(data)
    for place in np.ndindex(data[name].shape):
        moved = data[name].copy()
        moved[place] += 1
        slope = worker.one_device({**data, name: moved})["forward"] - truth["forward"]
        np.testing.assert_allclose(truth[name][place], slope, atol=1e-9)


def _reports(chain, ranks=2):
    entry = {"ratio": 1.0, "error": 0.0, "digest": "same"}
    names = ("sum", "forward", *chain.GRADIENTS)
    return [{form: {name: dict(entry) for name in names} for form in chain.FORMS} for _ in range(ranks)]


def test_right_reports_have_no_fault(chain):
    """
    Feature: examples/lora_chain.py.
    Description: two reports without any difference, and one within the tolerance.
    Expectation: nothing is off.
    """
    reports = _reports(chain)
    reports[1]["lazy"]["x"].update(ratio=1.00009, error=9e-5)
    assert chain.faults(reports) == []


@pytest.mark.parametrize("name, change, said", [
    ("forward", {"ratio": 1.1995}, "early, rank 1: forward has ratio 1.1995"),
    ("B", {"ratio": 0.6494}, "early, rank 1: B has ratio 0.6494"),
    ("x", {"error": 0.5}, "early, rank 1: x has ratio 1.000000 to one device and is off by 5.0e-01"),
    ("A", {"ratio": float("nan")}, "early, rank 1: A has ratio nan"),
    ("sum", {"digest": "other"}, "early: sum is not equal on every rank"),
    ("B", {"digest": "other"}, "early: B is not equal on every rank"),
])
def test_fault_of_one_rank_is_found(chain, name, change, said):
    """
    Feature: examples/lora_chain.py.
    Description: one value of one rank in one form is off: in its ratio, in an element, by nan, or between ranks.
    Expectation: exactly that fault.
    """
    reports = _reports(chain)
    reports[1]["early"][name].update(change)
    found = chain.faults(reports)
    assert len(found) == 1 and found[0].startswith(said)


def test_ratio_alone_does_not_hide_a_wrong_element(worker):
    """
    Feature: examples/lora_chain.py.
    Description: a value whose projection on the truth is exact while its elements are not.
    Expectation: ratio 1, and an error of the size of the elements.
    """
    class Held:
        """A tensor, as far as the example looks at it."""

        @staticmethod
        def asnumpy():
            """Off in both elements by amounts that cancel in the projection."""
            return np.array([2.0, 0.0])

    entry = worker.ratios({"forward": Held}, {"forward": np.array([1.0, 1.0])})["forward"]
    assert (entry["ratio"], entry["error"]) == (1.0, 1.0)


def test_unfixed_addends_sum_to_one(worker):
    """
    Feature: examples/lora_chain.py.
    Description: each rank's own product over one device's, for two ranks, in numpy.
    Expectation: the figures of the report, forward 1.1995 and -0.1995, gradient of B 0.3506 and 0.6494.
    """
    data = worker.make_data()
    truth = worker.one_device(data)
    forward, gradient = [], []
    for rank in range(2):
        mine = worker.columns(rank, 2)
        part = worker.one_device({"x": data["x"][:, mine], "A": data["A"][:, mine], "B": data["B"]})
        forward.append(round(part["forward"] / truth["forward"], 4))
        gradient.append(round((part["B"] * truth["B"]).sum() / (truth["B"] ** 2).sum(), 4))
    assert forward == [1.1995, -0.1995] and gradient == [0.3506, 0.6494]
