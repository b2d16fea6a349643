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
"""Sub-meshes, flattened, unflattened and concatenated meshes, as each rank sees them, and what is refused."""
import pytest

from hyper_parallel import MeshError, init_device_mesh, simulate
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from tests.common.tensors import CUBE, CUBE_NAMES

@pytest.mark.parametrize("ranks, name, found", [
    ("dp", "dp", (1, 7)), ("cp", "cp", (7, 9, 11)), ("tp", "tp", (6, 7)),
])
def test_a_sub_mesh_holds_this_rank(cube, ranks, name, found):
    """
    Feature: sub-meshes.
    Description: one axis of the cube, as rank 7 sees it.
    Expectation: the ranks along the axis, with the root and the device type kept; the same mesh on repeat.
    """
    sub = cube[ranks]
    assert sub.rank_list == found and sub.mesh_dim_names == (name,) and sub.ndim == 1
    assert sub.root_mesh is cube and sub.device_type == "npu"
    assert sub == cube[(name,)] and sub.identity == cube[(name,)].identity


def test_sub_meshes_of_several_axes_keep_their_order(cube):
    """
    Feature: sub-meshes.
    Description: pairs of axes, all axes, a sub-mesh of a sub-mesh.
    Expectation: the plane through rank 7; all names give the mesh itself.
    """
    pair = cube["dp", "tp"]
    assert pair.mesh_shape == (2, 2) and pair.rank_list == (0, 1, 6, 7) and pair.get_coordinate() == (1, 1)
    assert cube["cp", "tp"].rank_list == (6, 7, 8, 9, 10, 11)
    assert cube[CUBE_NAMES] is cube and pair["tp"] == cube["tp"] and pair["tp"].root_mesh is cube


def test_every_rank_sees_its_own_sub_mesh():
    """
    Feature: sub-meshes.
    Description: mesh["tp"] asked as each of 4 ranks.
    Expectation: ranks 0, 1 see (0, 1); ranks 2, 3 see (2, 3).
    """
    seen = []
    for rank in range(4):
        with simulate(4, rank=rank):
            seen.append(init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))["tp"].rank_list)
    assert seen == [(0, 1), (0, 1), (2, 3), (2, 3)]


def test_flattened_meshes_are_one_axis(cube):
    """
    Feature: flatten.
    Description: the cube and a pair of its axes, with and without a name; asked for by name afterwards.
    Expectation: one axis over the same ranks in order; registered at the root; the same object on repeat.
    """
    pair = cube["dp", "tp"].flatten()
    assert pair.mesh_dim_names == ("dp_tp",) and pair.rank_list == (0, 1, 6, 7) and pair.mesh_shape == (4,)
    assert cube.flatten("world").rank_list == tuple(range(12)) and cube["cp", "tp"]._flatten("loss").size() == 6
    assert sorted(cube.get_flatten_mapping()) == ["dp_tp", "loss", "world"]
    assert sorted(cube.sub_mesh) == ["dp_tp", "loss", "world"]
    assert cube["dp", "tp"].flatten() is pair and cube["dp_tp"] == pair
    assert cube["tp"].flatten("tp") == cube["tp"] and pair.get_coordinate() == (3,)
    assert cube.get_group("world") == pair.root_mesh.get_flatten_mapping()["world"].get_group()


def test_a_flattened_axis_joins_original_ones(cube):
    """
    Feature: flatten.
    Description: a flattened name next to an original one, overlapping or not.
    Expectation: a 2-D mesh when they do not overlap; RuntimeError when they do.
    """
    cube["cp", "tp"].flatten("model")
    both = cube["dp", "model"]
    assert both.mesh_shape == (2, 6) and both.rank_list == tuple(range(12))
    with pytest.raises(RuntimeError, match="overlap"):
        _ = cube["model", "tp"]


def test_every_rank_sees_its_own_flattened_mesh():
    """
    Feature: flatten.
    Description: the outer two axes of one (2, 2, 2) mesh flattened as rank 0 and as rank 7 sees them.
    Expectation: each sees the ranks that share its own last coordinate.
    """
    seen = []
    for rank in (0, 7):
        with simulate(8, rank=rank):
            mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=CUBE_NAMES)
            seen.append((mesh["dp", "cp"].flatten("outer").rank_list, mesh["outer"].rank_list))
    assert seen == [((0, 2, 4, 6),) * 2, ((1, 3, 5, 7),) * 2]


def test_flatten_mappings_can_be_added(cube):
    """
    Feature: add_flatten_mapping.
    Description: a flattened mesh under another name.
    Expectation: it is found by that name.
    """
    flat = cube["dp", "cp"].flatten("outer")
    cube.add_flatten_mapping("again", flat)
    assert cube["again"].rank_list == flat.rank_list and cube.get_flatten_mapping()["again"] is flat


def test_unflatten_splits_an_axis():
    """
    Feature: _unflatten.
    Description: 8 ranks in one axis split in (2, 4), by position and with a back end override.
    Expectation: a (2, 4) mesh with both names; a wrong size is refused.
    """
    with simulate(8):
        world = init_device_mesh("npu", (8,), mesh_dim_names=("world",))
        made = world._unflatten(0, (2, 4), ("dp", "tp"), backend_override={"dp": "fake"})
        assert made.mesh_shape == (2, 4) and made.mesh_dim_names == ("dp", "tp")
        assert made["tp"].rank_list == (0, 1, 2, 3)
        with pytest.raises(MeshError, match="unflatten"):
            world._unflatten(0, (3, 4), ("dp", "tp"))


def test_concatenated_meshes_join_axes_of_one_root(cube):
    """
    Feature: concatenate.
    Description: sub-meshes of one root in order; overlapping, unordered, of another root, without names, none at
        all.
    Expectation: the joined mesh, or MeshError.
    """
    joined = DeviceMesh.concatenate([cube["dp"], cube["tp"]])
    assert joined == cube["dp", "tp"] and joined.root_mesh is cube
    assert DeviceMesh.concatenate([cube["dp"], cube["cp", "tp"]]).mesh_shape == (2, 3, 2)
    other = init_device_mesh("npu", (12,), mesh_dim_names=("world",))
    unnamed = DeviceMesh("npu", CUBE)
    for meshes, text in (([cube["tp"], cube["dp"]], "root order"), ([cube["dp"], cube["dp", "tp"]], "disjoint"),
                         ([cube["dp"], other], "one root"), ([unnamed], "named"), ([], "named")):
        with pytest.raises(MeshError, match=text):
            DeviceMesh.concatenate(meshes)


SUB_MESH_REFUSED = {
    "unknown name": (lambda m: m["pp"], KeyError, "pp"),
    "unknown in tuple": (lambda m: m["dp", "pp"], KeyError, "pp"),
    "order": (lambda m: m["tp", "dp"], ValueError, "order"),
    "empty": (lambda m: m[()], ValueError, "at least one"),
    "index": (lambda m: m[0], TypeError, "name or a tuple"),
    "list": (lambda m: m[["dp"]], TypeError, "name or a tuple"),
    "twice": (lambda m: m["dp", "dp"], (ValueError, RuntimeError), "overlap"),
    "flatten under an axis name": (lambda m: m["dp", "tp"].flatten("cp"), ValueError, "already an axis"),
    "flatten under a taken name": (lambda m: (m["dp", "tp"].flatten("x"), m["dp", "cp"].flatten("x")), ValueError,
                                   "another"),
    "axis by unknown name": (lambda m: m.axis_index("pp"), ValueError, "no axis 'pp'"),
    "id by unknown name": (lambda m: m.axis_id("pp"), ValueError, "no axis 'pp'"),
    "size by unknown name": (lambda m: m.get_device_num_along_axis("pp"), ValueError, "no axis 'pp'"),
    "axis out of range": (lambda m: m.size(3), ValueError, "index below 3"),
    "local rank by unknown name": (lambda m: m.get_local_rank("pp"), ValueError, "no axis 'pp'"),
    "local rank out of range": (lambda m: m.get_local_rank(7), ValueError, "index below 3"),
    "rank not in the mesh": (lambda m: m.get_devices_for_axis("tp", 99), ValueError, "99"),
}


@pytest.mark.parametrize("name", list(SUB_MESH_REFUSED))
def test_a_sub_mesh_or_axis_that_does_not_exist_is_refused(cube, name):
    """
    Feature: sub-meshes and axes.
    Description: unknown names, wrong order, wrong types.
    Expectation: the error type of the public library, with the offending value in the text.
    """
    call, error, text = SUB_MESH_REFUSED[name]
    with pytest.raises(error, match=text):
        call(cube)
