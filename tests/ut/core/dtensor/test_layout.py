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
"""Layout: both call forms, reversed indices, setters that rebind one handle, questions and exports."""
import copy
import pickle

import pytest

from hyper_parallel import Layout, LayoutError, MeshError, Partial, Replicate, Shard, UnsupportedOpError, simulate
from hyper_parallel.core.dtensor.layout_value import layout_value, placements_to_value
from hyper_parallel.core.dtensor.placement_types import RaggedShard, StridedShard
from tests.common.tensors import bare_mesh, template

R, S, SS, P = Replicate(), Shard, StridedShard, Partial


# entries, tensor_map, alias_tensor_map (None: as entered), placements on the (2, 3, 4) mesh (dp, cp, tp)
ENTRIES = [
    (("dp", "None", ("cp", "tp")), (2, -1, (1, 0)), None, (S(0), S(2), S(2))),
    (("tp", "cp", "dp"), (0, 1, 2), None, (S(2), S(1), S(0))),
    (("None", "None"), (-1, -1), None, (R, R, R)),
    ((), (), None, (R, R, R)),
    ((("dp", "None"), "tp"), ((2, -1), 0), None, (S(0), R, S(1))),
    ((("tp", "dp"),), ((0, 2),), None, (SS(0, 4), R, S(0))),
    ((("tp", "cp", "dp"),), ((0, 1, 2),), None, (SS(0, 12), SS(0, 4), S(0))),
    ((("cp", "dp", "tp"),), ((1, 2, 0),), None, (SS(0, 3), S(0), S(0))),
    ((("dp",),), ((2,),), None, (S(0), R, R)),
]


@pytest.mark.parametrize("entries, tensor_map, aliases, placements", ENTRIES)
def test_axis_names_give_map_and_placements(entries, tensor_map, aliases, placements):
    """
    Feature: layout(names...).
    Description: one entry per tensor dimension: a name, "None" or a tuple, outermost cut first.
    Expectation: the map holds reversed mesh indices; placements hold one entry per mesh axis.
    """
    layout = template()(*entries)
    assert layout.tensor_map == tensor_map and layout.alias_tensor_map == (aliases or entries)
    assert layout.placements == placements == layout.alias_placements == layout.tensor_map_to_placement()
    assert layout.partial == [None] * 3 and not layout.is_partial()


# placements, tensor rank, tensor_map, placements afterwards (None: the same)
PLACEMENTS = [
    ((S(0), R, S(1)), 2, (2, 0), None),
    ((S(-1), R, S(-2)), 2, (0, 2), (S(1), R, S(0))),
    ((S(0), S(0), S(0)), 1, ((2, 1, 0),), None),
    ((SS(0, 4), R, S(0)), 1, ((0, 2),), None),
    ((SS(0, 3), S(0), S(0)), 1, ((1, 2, 0),), None),
    ((SS(0, 12), SS(0, 4), S(0)), 1, ((0, 1, 2),), None),
    ((SS(0, 1), R, S(0)), 1, ((2, 0),), (S(0), R, S(0))),
    ((P("sum"), R, P("avg")), 0, (), None),
    ((P("max"), S(1), R), 3, (-1, 1, -1), None),
]


@pytest.mark.parametrize("placements, ndim, tensor_map, after", PLACEMENTS)
def test_placements_give_the_map_once_the_rank_is_known(placements, ndim, tensor_map, after):
    """
    Feature: layout(placements...), placement_to_tensor_map.
    Description: one placement per mesh axis, as arguments and as one tuple.
    Expectation: nothing but placements before; map, aliases and Partials after; negative dims are resolved.
    """
    for layout in (template()(*placements), template()(placements)):
        assert layout.placements == placements and layout.tensor_map is None and layout.alias_tensor_map is None
        assert layout.placement_to_tensor_map(ndim) == tensor_map == layout.tensor_map
        assert layout.placements == (placements if after is None else after)
        assert layout.partial == [p.reduce_op if p.is_partial() else None for p in placements]


def test_a_template_holds_nothing_and_is_never_changed_by_calls():
    """
    Feature: templates.
    Description: a fresh layout, before and after it was called; questions that need tensor dimensions.
    Expectation: None everywhere; the questions are refused with the call that completes it.
    """
    empty = template()
    empty("dp", "None")
    assert (empty.tensor_map, empty.placements, empty.alias_tensor_map) == (None, None, None)
    assert empty.partial == [None] * 3 and empty.is_partial() is False
    asked = (empty.repeat_num, empty.to_dict, lambda: empty.value, empty.tensor_map_to_placement,
             lambda: empty.set_partial_by_dev_axis("dp", "sum"), lambda: empty.placement_to_tensor_map(2))
    for ask in asked:
        with pytest.raises(LayoutError, match="layout"):
            ask()


def test_both_constructors_make_the_same_layout():
    """
    Feature: Layout(mesh_shape, alias_name), from_device_mesh.
    Description: the same mesh by shape and names, and by object; with and without init_backend; another rank
        list.
    Expectation: equal layouts; from_device_mesh keeps the mesh object.
    """
    with simulate(24):
        made = Layout((2, 3, 4), ("dp", "cp", "tp"))
        assert made == template() and made("dp") == template()("dp") and made.mesh.device_type == "npu"
        assert made == Layout((2, 3, 4), ("dp", "cp", "tp"), None, False) and made.mesh_shape == (2, 3, 4)
        assert made.alias_name == ("dp", "cp", "tp") and made.rank_list == tuple(range(24))
        other = Layout((2, 3, 4), ("dp", "cp", "tp"), rank_list=range(23, -1, -1))
        assert other != made and other.rank_list[0] == 23
    mesh = bare_mesh((2, 2))
    assert Layout.from_device_mesh(mesh).mesh is mesh and Layout.from_device_mesh(mesh)("dp").mesh is mesh


def test_a_call_clears_what_was_pending():
    """
    Feature: layout(...).
    Description: a layout with a pending sum is called again.
    Expectation: the new layout has nothing pending; the old one still has.
    """
    old = template()("dp", "None")
    old.set_partial_by_dev_axis("tp", "sum")
    assert old("dp", "None").partial == [None] * 3 and old.partial == [None, None, "sum"]


@pytest.mark.parametrize("op", ["sum", "avg", "max", "min", "prod", "all", "SUM"])
def test_a_pending_op_is_set_on_one_handle_only(op):
    """
    Feature: set_partial_by_dev_axis.
    Description: a setter on one of two handles of the same value; cleared, reset, overwritten.
    Expectation: only that handle is rebound; the value that both held is not changed.
    """
    one, two = template()("dp", "None"), template()("dp", "None")
    value = one.value
    assert value is two.value
    one.set_partial_by_dev_axis("tp", op)
    assert one.get_partial_by_dev_id("tp") == op.lower() and one.is_partial() and one.placements[2] == P(op)
    assert two.value is value and value.partial == (None,) * 3 and not two.is_partial() and one != two
    one.set_partial_by_dev_axis("tp", "min")
    assert one.partial == [None, None, "min"]
    one.set_partial_by_dev_axis("tp", None)
    assert one == two and one.value is value
    one.set_partial_by_dev_axis("cp", op)
    one.reset_partial()
    assert one.value is value and one.get_partial_by_dev_id("cp") is None


def test_handed_out_lists_do_not_lead_back():
    """
    Feature: Layout.partial.
    Description: change the list that `partial` gives.
    Expectation: the layout is not changed.
    """
    layout = template()("dp")
    layout.partial[2] = "sum"
    assert layout.partial == [None] * 3 and not layout.is_partial()


def test_setters_rebind_this_handle():
    """
    Feature: set_tensor_map, set_alias_tensor_map, set_placements, rank_list.
    Description: each setter on a fresh copy.
    Expectation: the new cuts on that handle; equal to a layout that was made so.
    """
    base = template()("dp", "None")
    made = copy.deepcopy(base)
    made.set_tensor_map((-1, (1, 0)))
    assert made == template()("None", ("cp", "tp")) and made.alias_tensor_map == ("None", ("cp", "tp"))
    made.set_alias_tensor_map(("tp", "dp"))
    assert made == template()("tp", "dp")
    made.set_placements((R, S(0), R))
    assert made.tensor_map is None and made.placement_to_tensor_map(2) == (1, -1)
    made.rank_list = range(23, -1, -1)
    assert made.rank_list == tuple(range(23, -1, -1)) and made.mesh_shape == (2, 3, 4) and made.tensor_map == (1, -1)
    assert base == template()("dp", "None")


def test_values_are_interned_and_handles_are_unhashable():
    """
    Feature: interning.
    Description: equal cuts by names, placements and values, on equal meshes; handles as keys.
    Expectation: one value object; a handle is no key; values of other meshes are other objects.
    """
    by_names = template()("dp", "tp").value
    by_placements = placements_to_value(bare_mesh((2, 3, 4)), (S(0), R, S(1)), 2)
    assert by_names is by_placements is layout_value(bare_mesh((2, 3, 4)), [[0], [2]])
    assert len({by_names, by_placements}) == 1
    assert layout_value(bare_mesh((2, 3, 4), ranks=range(24, 48)), [[0], [2]]) is not by_names
    assert by_names.spec((4, 8)) is by_placements.spec((4, 8)) and by_names.spec((4, 8)) is not by_names.spec((8, 4))
    with pytest.raises(TypeError, match="unhashable"):
        hash(template()("dp"))


def test_equality_looks_at_mesh_cuts_order_and_pending_ops():
    """
    Feature: Layout equality.
    Description: layouts that differ in one of them.
    Expectation: none is equal to another; each is equal to its copies.
    """
    pending = template()("dp", "None")
    pending.set_partial_by_dev_axis("tp", "sum")
    averaged = template()("dp", "None")
    averaged.set_partial_by_dev_axis("tp", "avg")
    different = [template(), template()("dp", "None"), template()("None", "dp"), template()("dp"), pending,
                 averaged,
                 template()(("dp", "cp")), template()(("cp", "dp")), template()(S(0), R, R),
                 template((2, 3, 4), ("a", "b", "c"))("a", "None"), template((2, 4, 3))("dp", "None")]
    for i, a in enumerate(different):
        assert [j for j, b in enumerate(different) if a == b] == [i]
        assert copy.deepcopy(a) == a == copy.copy(a) and a != "layout"
    assert pickle.loads(pickle.dumps(pending)) == pending and copy.deepcopy(pending).mesh is pending.mesh
    assert template()("dp", "None") == template()(("dp", "None"), "None")  # the same cuts, written otherwise


def test_compact_strings_tell_layouts_on_one_mesh_apart():
    """
    Feature: compact_str, to_string.
    Description: layouts with other cuts, orders and pending ops.
    Expectation: different compact strings; equal layouts have equal ones; to_string shows axes and placements.
    """
    pending = template()("dp")
    pending.set_partial_by_dev_axis("tp", "sum")
    layouts = [template()("dp"), template()("cp"), pending, template()(("dp", "cp")), template()(("cp", "dp"))]
    assert len({layout.compact_str for layout in layouts}) == len(layouts)
    pending.update_compact_str()
    assert pending.compact_str == copy.deepcopy(pending).compact_str
    assert "tp=4" in str(pending) and "P(sum)" in repr(pending) and pending.to_string() == str(pending)
    assert "template" in str(template())


@pytest.mark.parametrize("entries, pending, shards, splits, repeated", [
    (("dp", "None"), {}, {"dp": 0, "cp": None, "tp": None}, (2, 1), 12),
    (("dp", ("cp", "tp")), {}, {"dp": 0, "cp": 1, "tp": 1}, (2, 12), 1),
    (("None", "tp"), {"dp": "sum", "cp": "avg"}, {"dp": None, "cp": None, "tp": 1}, (1, 4), 6),
    (("None",), {}, {"dp": None, "cp": None, "tp": None}, (1,), 24),
    ((), {"tp": "max"}, {"dp": None, "cp": None, "tp": None}, (), 24),
])
def test_questions_about_axes_and_dims(entries, pending, shards, splits, repeated):
    """
    Feature: is_dev_axis_apply_shard, get_dev_axis_apply_shard_axis, get_dim_split_num, repeat_num.
    Description: layouts with cuts and pending ops.
    Expectation: as counted by hand; a pending axis counts as repeated.
    """
    layout = template()(*entries)
    for axis, op in pending.items():
        layout.set_partial_by_dev_axis(axis, op)
    assert {a: layout.get_dev_axis_apply_shard_axis(a) for a in shards} == shards
    assert {a: layout.is_dev_axis_apply_shard(a) for a in shards} == {a: d is not None for a, d in shards.items()}
    assert tuple(layout.get_dim_split_num(d) for d in range(len(splits))) == splits
    assert layout.repeat_num() == repeated


def test_split_ids_are_mixed_radix_over_the_order_of_cuts():
    """
    Feature: get_split_id.
    Description: every rank of a (2, 3) mesh asks for its part of a dim cut by (dp, cp), by (cp, dp), by cp and
        not.
    Expectation: dp * 3 + cp, cp * 2 + dp, cp, 0.
    """
    for rank in range(6):
        with simulate(6, rank=rank):
            layout = Layout((2, 3), ("dp", "cp"))
            d, c = divmod(rank, 3)
            asked = [layout(e).get_split_id(0) for e in (("dp", "cp"), ("cp", "dp"), "cp", "None")]
            assert asked == [3 * d + c, 2 * c + d, c, 0]


def test_global_shapes_are_recorded_or_of_equal_shards():
    """
    Feature: get_global_shape, set_tensor_meta.
    Description: a local shape on a fresh layout; after the global one is recorded.
    Expectation: each dim times its cuts; then what was recorded.
    """
    layout = template()("dp", "None", ("cp", "tp"))
    assert layout.get_global_shape((2, 3, 1)) == (4, 3, 12)
    layout.set_tensor_meta((3, 3, 11), stride=(33, 11, 1), dtype="float32")
    assert layout.get_global_shape((2, 3, 1)) == (3, 3, 11) == layout.tensor_shape
    assert (layout.tensor_stride, layout.tensor_dtype) == ((33, 11, 1), "float32")
    assert template()("dp", "None").tensor_shape is None


def test_a_layout_exports_to_a_dict():
    """
    Feature: to_dict.
    Description: a layout with and without the virtual axis.
    Expectation: the five keys of the public library.
    """
    assert template()("dp", ("cp", "tp")).to_dict() == {
        "mesh_shape": (2, 3, 4), "tensor_map": (2, (1, 0)), "interleaved_parallel": False,
        "alias_name": ("dp", "cp", "tp"), "rank_list": tuple(range(24))}
    assert template((2, 2), ("dp", "interleaved_parallel"))("dp").to_dict()["interleaved_parallel"] is True


def test_delegates_of_the_mesh():
    """
    Feature: get_devices_for_axis, get_comm_group_by_axis, update_mesh.
    Description: asked on a layout in a simulation.
    Expectation: what the mesh answers; update_mesh keeps the layout.
    """
    with simulate(24, rank=5):
        layout = Layout((2, 3, 4), ("dp", "cp", "tp"))("dp")
        assert layout.get_devices_for_axis("cp", 5) == [1, 5, 9]
        assert layout.get_comm_group_by_axis("tp") == layout.mesh.get_group("tp")
        for init_backend in (True, False):
            layout.update_mesh(init_backend=init_backend)
            assert layout.tensor_map == (2,) and layout.mesh.mesh_shape == (2, 3, 4)


def test_unnamed_meshes_have_numbered_aliases():
    """
    Feature: layouts on a mesh without names.
    Description: placements on a (2, 2) mesh; a name.
    Expectation: aliases dim_0 and dim_1; names are refused.
    """
    layout = template((2, 2), None)(S(1), S(0))
    layout.placement_to_tensor_map(2)
    assert layout.alias_tensor_map == ("dim_1", "dim_0") and layout.alias_name is None and layout.tensor_map == (0, 1)
    with pytest.raises(ValueError, match="no axis 'dp'"):
        template((2, 2), None)("dp", "None")


REFUSED = {
    "unknown axis": (lambda t: t("xx", "None"), LayoutError, "no axis 'xx'"),
    "unknown axis in a tuple": (lambda t: t(("dp", "xx")), LayoutError, "no axis 'xx'"),
    "None for a name": (lambda t: t(None, "dp"), LayoutError, "None"),
    "index for a name": (lambda t: t(0), LayoutError, "no axis 0"),
    "axis twice": (lambda t: t("dp", "dp"), LayoutError, "'dp' can cut only one"),
    "axis twice in a tuple": (lambda t: t(("dp", "dp")), LayoutError, "'dp' can cut only one"),
    "number of placements": (lambda t: t(S(0), R), LayoutError, "needs 3 placements"),
    "one placement": (lambda t: t(S(0)), LayoutError, "needs 3 placements"),
    "shard out of range": (lambda t: t(S(2), R, R).placement_to_tensor_map(2), LayoutError, "out of range"),
    "negative shard out of range": (lambda t: t(S(-3), R, R).placement_to_tensor_map(2), LayoutError, "out of range"),
    "shard of a scalar": (lambda t: t(S(0), R, R).placement_to_tensor_map(0), LayoutError, "out of range"),
    "negative rank": (lambda t: t(S(0), R, R).placement_to_tensor_map(-1), LayoutError, "at least 0"),
    "ragged": (lambda t: t(RaggedShard((0,), (1, 1)), R, R).placement_to_tensor_map(1), UnsupportedOpError, "ragged"),
    "map out of range": (lambda t: t("dp").set_tensor_map((3,)), LayoutError, "does not exist"),
    "op unknown": (lambda t: t("dp").set_partial_by_dev_axis("tp", "mean"), LayoutError, "one of sum"),
    "op on a cut axis": (lambda t: t("dp").set_partial_by_dev_axis("dp", "sum"), LayoutError, "must be replicate"),
    "op on an unknown axis": (lambda t: t("dp").set_partial_by_dev_axis("xx", "sum"), MeshError, "no axis 'xx'"),
    "question about an unknown axis": (lambda t: t("dp").is_dev_axis_apply_shard("xx"), MeshError, "no axis 'xx'"),
    "shape of another rank": (lambda t: t("dp").value.spec((4, 4)), LayoutError, "does not fit the shape"),
    "mesh and names": (lambda t: Layout((2, 2), ("dp",), init_backend=False), MeshError, "one name per axis"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_layout_that_denotes_nothing_is_refused(name):
    """
    Feature: Layout.
    Description: names, placements, maps and ops that do not fit the mesh (2, 3, 4).
    Expectation: an error of this package that names what was found.
    """
    make, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        make(template())


def test_errors_of_layouts_are_value_errors():
    """
    Feature: error types.
    Description: the hierarchy.
    Expectation: programs that catch ValueError catch layout and mesh errors.
    """
    assert issubclass(LayoutError, ValueError) and issubclass(MeshError, ValueError)
