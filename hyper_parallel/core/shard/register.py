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
"""`register_op`: a new operation declared in one call, with no knowledge of what is inside.

The declaration says which letter every dimension carries, how letters that vanish are reduced, and what the operation
is to an operand that is still to be reduced. Layouts, conversions and gradients follow, as for built-in operations.
"""
from __future__ import annotations

import logging

import numpy as np

from hyper_parallel.core.shard.declaration import Bound, Call, Declaration, Operand, parse_params
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp, RuleOp
from hyper_parallel.core.shard.ops.parallel_ops_register import registered_ops, restore_distributed_op
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.core.shard.signature_text import Notation, default_patterns, parse_signature
from hyper_parallel.errors import LayoutError, VerificationError

logger = logging.getLogger("hyper_parallel.register")

CLASSES = ("nonlinear", "linear", "additive", "multilinear", "increasing", "decreasing", "movement")
_IDENTITIES = {"sum": 0, "max": "max", "min": "min", "prod": 1, "all": True}
_NAMES = ("input", "other", "third", "fourth")


class UserOp(RuleOp):
    """An operation registered by declaration."""


def register_op(name: str, *, signature: str | None = None, rule=None, linear="nonlinear", params: str | None = None,
                terms=None, reduces=None, unshardable: str = "", no_grad=(), joint=(), override: bool = False,
                verify: bool = False, reference=None, patterns=None, approximate: bool = False) -> DistributedOp:
    """Declare how the operation `name` acts on distributed tensors, or hand over a programmed rule.

    Args:
        name: the framework's name of the operation, as refusals of an unregistered one show it.
        signature: a letter per dimension, as in einsum: "mk,kn->mn". "..." stands for any number of leading
            dimensions, which broadcast; a digit is a dimension of that size, which is never cut ("ab->a1"). Several
            results are separated by commas.
        rule: a `DistributedOp` subclass in place of a signature; it is made with the name. Of the words below only
            `params`, `patterns`, `reference` and `approximate` go with it; a dict, its attribute `check`, may hold
            them.
        linear: what the operation is to an operand that is still to be reduced. "nonlinear" refuses it. "linear":
            linear in the first operand; "additive": a sum of its operands; "multilinear": a product, linear in each
            operand; "increasing", "decreasing": monotone in every operand alike, with a slope that is a function of the
            result (which a clamp at its bounds is not); "movement": elements are moved, never combined. Or a function
            of the static parameters (a dict) that gives one of these words.
        params: the parameters in the call's order: "x:t w:t scale=1.0", ":t" for a tensor, "=" for a default. Default:
            one tensor per operand, named input, other, third, fourth.
        terms: the operation is a sum of these products of operands, each linear in its factors, in place of `linear`:
            [("x", "w"), ("bias",)].
        reduces: letter -> "sum", "max", "min", "prod" or "all", for letters that vanish and whose shards combine so.
            A letter that vanishes and is not named here is never cut.
        unshardable: letters that the operation acts along, which are never cut.
        no_grad: operands without gradient (indices, masks).
        joint: "max" or "min", when several operands may be pending under it at once, and under nothing else, as in
            maximum(x, y).
        override: replace a built-in operation.
        verify: check the declaration against `reference` first, over every placement, forward and backward.
        reference: the operation on numpy arrays, called with the arguments in the order of `params`. Its gradients are
            checked when it is made of numpy functions with known derivatives (`hyper_parallel.verify.tape`).
        patterns: how to call it in the check, `hyper_parallel.verify.Pattern`s or their texts ("x=ab w=b/index").
            Default: made from the signature, static parameters at their defaults; a programmed rule needs them.
        approximate: the reference rounds, so compare within 4 units in the last place.

    Returns:
        The registered operation; `report` holds what the verifier found, or None.

    Raises:
        LayoutError: when the declaration contradicts itself, the check lacks something, or the name is built in and
            `override` is not set.
        VerificationError: when the declaration is unsound, with the smallest counterexample; nothing is registered.

    Examples:
        >>> import numpy as np
        >>> from hyper_parallel import Layout, register_op
        >>> op = register_op("ScaledProduct", signature="mk,kn->mn", params="x:t w:t scale=1.0", linear="multilinear",
        ...                  reduces={"k": "sum"}, verify=True, reference=lambda x, w, scale: x @ w * scale)
        >>> layout = Layout((2,), ("tp",))
        >>> op.infer_layout([layout("None", "tp"), layout("tp", "None")])[0][0].placements
        (Partial(reduce_op='sum'),)
    """
    if not override and _built_in(name):
        raise LayoutError(f"{name} is a built-in operation, whose rule is verified. Pass override=True to replace it.")
    if (signature is None) == (rule is None):
        raise LayoutError(f"{name} needs either signature=, a declaration, or rule=, a DistributedOp subclass.")
    if rule is not None:
        given = {"params": params, "reference": reference, "patterns": patterns, "approximate": approximate or None}
        return _registered_rule(name, rule, {k: v for k, v in given.items() if v is not None}, verify)
    notation = parse_signature(name, signature)
    facts = _Facts(name, notation, parse_params(params or _tensor_params(name, len(notation.inputs))), linear, terms,
                   dict(reduces or {}), unshardable, tuple(no_grad),
                   (joint,) if isinstance(joint, str) else tuple(joint))
    declaration = Declaration(name, facts.params, facts.bind)
    report = _verified(declaration, facts, reference, patterns, approximate) if verify else None
    op = UserOp(declaration)
    op.report = report
    return op


def _registered_rule(name: str, rule, given: dict, verify: bool) -> DistributedOp:
    """The instance of a programmed rule; what the name meant before comes back where the check fails."""
    if not (isinstance(rule, type) and issubclass(rule, DistributedOp)):
        raise LayoutError(f"{name}: rule= must be a subclass of DistributedOp. Got {rule!r}.")
    before = registered_ops().get(name)
    op = rule(name)
    if verify:
        try:
            op.report = _verified_rule(op, {**getattr(rule, "check", {}), **given})
        except BaseException:
            restore_distributed_op(name, before)
            raise
    return op


def _tensor_params(name: str, count: int) -> str:
    if count > len(_NAMES):
        raise LayoutError(f"{name}: name the parameters of {count} operands: params='a:t b:t ...'.")
    return " ".join(f"{word}:t" for word in _NAMES[:count])


def _built_in(name: str) -> bool:
    op = registered_ops().get(name)
    bind = getattr(getattr(op, "declaration", None), "bind", None)
    return not isinstance(op, UserOp) and getattr(bind, "__module__", "").startswith("hyper_parallel.core.shard.ops")


# -- from words to a signature ---------------------------------------------------------------------------------------


class _Facts:
    """What the user said, checked; `bind` turns it into the signature of one call."""

    def __init__(self, name, notation: Notation, params, linear, terms, reduces, unshardable, no_grad, joint):
        self.name, self.notation, self.params = name, notation, params
        self.linear, self.terms, self.reduces = linear, terms, reduces
        self.unshardable, self.no_grad, self.joint = frozenset(unshardable), no_grad, joint
        self.tensors = tuple(p.name for p in params if p.tensor)
        self._signatures: dict = {}
        self._check()

    def _check(self) -> None:
        name, notation = self.name, self.notation
        if len(self.tensors) != len(notation.inputs):
            raise LayoutError(f"{name}: the signature has {len(notation.inputs)} operands, and params name "
                              f"{len(self.tensors)} tensors {list(self.tensors)}. Mark tensors with ':t'.")
        if not callable(self.linear):
            self._known_class(self.linear)
        self._check_reduces()
        unknown = [c for c in self.unshardable if c not in notation.letters]
        unknown += [n for n in self.no_grad if n not in self.tensors]
        unknown += [n for term in self.terms or () for n in term if n not in self.tensors]
        unknown += [op for op in self.joint if op not in ("max", "min")]
        if unknown:
            raise LayoutError(f"{name}: {unknown} are neither letters of {notation.text!r} nor tensors among "
                              f"{list(self.tensors)}.")

    def _check_reduces(self) -> None:
        name, notation = self.name, self.notation
        for letter, op in self.reduces.items():
            kept = all(letter in dims for dims in notation.outputs)
            if op not in _IDENTITIES or letter not in notation.letters or kept:
                raise LayoutError(f"{name}: reduces={{{letter!r}: {op!r}}} must name a letter that vanishes, and one "
                                  f"of {', '.join(_IDENTITIES)}.")
        if len(set(self.reduces.values())) > 1:
            raise LayoutError(f"{name}: all letters that vanish must be reduced alike. Got {self.reduces}.")

    def _known_class(self, word) -> str:
        if word not in CLASSES:
            raise LayoutError(f"{self.name}: linear must be one of {', '.join(CLASSES)}. Got {word!r}.")
        return word

    def bind(self, call: Call) -> Bound:
        """The signature of one call and the shapes of its results."""
        present = tuple(n for n in self.tensors if isinstance(call[n], Operand))
        where = tuple(self.tensors.index(n) for n in present)
        if not present:
            raise LayoutError(f"{self.name} needs a tensor among {list(self.tensors)}.")
        inputs, outputs, shapes = self.notation.fit([call[n] for n in present], where)
        word = self.linear
        if callable(word):
            word = self._known_class(word({p.name: call[p.name] for p in self.params if not p.tensor}))
        key = (present, inputs, outputs, word)
        if key not in self._signatures:
            self._signatures[key] = self._signature(present, inputs, outputs, word)
        identity = next((_IDENTITIES[op] for op in self.reduces.values()), 0)
        return Bound(self._signatures[key], shapes, multi=len(shapes) > 1, identity=identity)

    def domains(self) -> list:
        """Where the values of a check come from: without ties, where a tie would have no unique gradient."""
        extremum = {"max", "min"} & {*self.reduces.values(), *self.joint}
        ordered = extremum or self.linear in ("increasing", "decreasing")
        first = "distinct" if {"max", "min"} & set(self.reduces.values()) else "real"
        return [first, *["shifted" if ordered else "real"] * (len(self.tensors) - 1)]

    def _signature(self, present, inputs, outputs, word: str) -> Signature:
        index = {n: i for i, n in enumerate(present)}
        carried = [i for n, i in index.items() if n not in self.no_grad]
        repeated = {c for dims in inputs for c in dims if c is not None and dims.count(c) > 1}
        direction = {"increasing": 1, "decreasing": -1}.get(word, 0)
        return Signature(
            self.name, inputs, outputs, reduces=self.reduces, terms=self._terms(index, carried, word),
            monotone=tuple(direction if i in carried else 0 for i in range(len(present))) if direction else (),
            keeps=self.joint or ("max", "min"), joint=self.joint, movement=word == "movement",
            frozen=self.unshardable | repeated, no_grad=frozenset(index[n] for n in self.no_grad if n in index))

    def _terms(self, index: dict, carried: list, word: str) -> tuple:
        if self.terms is not None:
            return tuple(t for t in (tuple(index[n] for n in term if n in index) for term in self.terms) if t)
        if word == "linear":
            return (tuple(carried[:1]),)
        if word == "multilinear":
            return (tuple(carried),)
        return tuple((i,) for i in carried) if word in ("additive", "movement") else ()


# -- the check -------------------------------------------------------------------------------------------------------


def _verified(declaration: Declaration, facts: _Facts, reference, patterns, approximate: bool):
    """The verifier's report.

    Raises:
        VerificationError: when a row is unsound, or a pattern cannot be run.
    """
    from hyper_parallel.verify import Budget, Pattern, Reference, verify_declaration
    if reference is None:
        raise LayoutError(f"{declaration.name}: verify=True needs reference=, the operation on numpy arrays.")
    patterns = default_patterns(facts.notation, facts.tensors, facts.domains()) if patterns is None else patterns
    table = tuple(p if isinstance(p, Pattern) else Pattern(p) for p in patterns)
    meaning = Reference(lambda values: reference(*values.values()), table, approximate=approximate)
    report = verify_declaration(declaration, None, meaning, Budget(pairs=60, refusals=10, needless=False))
    _refuse_unsound(report)
    _check_no_grad(declaration, facts, meaning)
    _say_unchecked(report)
    return report


def _verified_rule(op: DistributedOp, given: dict):
    """The verifier's report on a programmed rule.

    Raises:
        LayoutError: when the check lacks something, or is given something that it does not know.
        VerificationError: when an answer is unsound, or a pattern cannot be run.
    """
    from hyper_parallel.verify import Budget, Pattern, Reference
    from hyper_parallel.verify.programmed import verify_programmed
    needed, known = {"params", "patterns", "reference"}, {"params", "patterns", "reference", "approximate"}
    if not needed <= set(given) <= known:
        raise LayoutError(f"{op.op_name}: verify=True of a programmed rule needs {', '.join(sorted(needed))}, as "
                          f"arguments or in {type(op).__name__}.check, and may have approximate. Got {sorted(given)}.")
    reference = given["reference"]
    meaning = Reference(lambda args, kwargs: reference(*args, **kwargs),
                        tuple(p if isinstance(p, Pattern) else Pattern(p) for p in given["patterns"]),
                        approximate=given.get("approximate", False))
    report = verify_programmed(op, given["params"], meaning, Budget(pairs=60, refusals=10, needless=False))
    _refuse_unsound(report)
    _say_unchecked(report)
    return report


def _refuse_unsound(report) -> None:
    if report.wrong:
        raise VerificationError(f"{report.name} is not registered: its rule is unsound.\n{report.wrong[0].message}")
    if report.problems:
        raise VerificationError(f"{report.name} is not registered: it could not be checked on {report.problems[0]}")


def _say_unchecked(report) -> None:
    if not report.gradients:
        logger.warning("%s: no gradient was checked: its reference has none, or uses numpy functions without a known "
                       "derivative. See hyper_parallel.verify.tape.elementwise.", report.name)


def _check_no_grad(declaration: Declaration, facts: _Facts, meaning) -> None:
    """An operand that is said to carry no gradient must have none: nobody would sum its ranks' parts."""
    from hyper_parallel.verify.generate import sizes_for
    from hyper_parallel.verify.meshes import mesh_of
    from hyper_parallel.verify.problem import Problem, Setting
    for pattern in meaning.patterns if facts.no_grad else ():
        problem = Problem(declaration, meaning, pattern, Setting(mesh_of((2,)), sizes_for(pattern, (2,), "even")))
        for i in problem.signature.no_grad if problem.has_gradients else ():
            if problem.gradients[i] is not None and np.any(problem.gradients[i]):
                raise VerificationError(f"{declaration.name} is not registered: no_grad names operand {i}, which has "
                                        f"a gradient: for {pattern} it is\n{problem.gradients[i]}")
