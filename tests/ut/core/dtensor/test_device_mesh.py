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
"""DeviceMesh: construction, questions, sub-meshes, flattened and concatenated meshes, groups, and what is refused."""
import copy
import pickle
import threading

import mindspore as ms
import numpy as np
import pytest

from hyper_parallel import MeshError, get_current_mesh, init_device_mesh, simulate
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh, _mesh_resources
from tests.common.tensors import CUBE, CUBE_NAMES

def test_a_mesh_says_what_it_is(cube):
    """
    Feature: DeviceMesh.
    Description: shape, size, names, ranks, coordinate of rank 7 on a (2, 3, 2) mesh.
    Expectation: as numpy computes them.
    """
    assert cube.mesh_shape == cube.shape == (2, 3, 2) and cube.ndim == 3 and cube.mesh_dim_names == CUBE_NAMES
    assert cube.rank == 7 and cube.rank_list == tuple(range(12)) and cube.device_type == "npu"
    assert [cube.size(), cube.size(0), cube.size(mesh_dim=1), cube.size(-1), cube.size("cp")] == [12, 2, 3, 2, 3]
    assert cube.get_coordinate() == (1, 0, 1)
    assert isinstance(cube.mesh, ms.Tensor) and cube.mesh.dtype == ms.int32
    assert np.array_equal(cube.mesh.asnumpy(), CUBE) and cube.mesh.numel() == 12
    assert cube.root_mesh is cube and cube.sub_mesh == {} and "dp" in repr(cube)


def test_axes_are_found_by_name_and_by_index(cube):
    """
    Feature: DeviceMesh.
    Description: axis_index, axis_id (reversed), sizes by name, names of axes.
    Expectation: the last axis has id 0; "None" has id -1.
    """
    assert [cube.axis_index(n) for n in CUBE_NAMES] == [0, 1, 2]
    assert [cube.axis_id(n) for n in (*CUBE_NAMES, "None")] == [2, 1, 0, -1]
    assert [cube.get_device_num_along_axis(n) for n in CUBE_NAMES] == [2, 3, 2]
    assert [cube.axis_name(i) for i in range(3)] == list(CUBE_NAMES)


def test_ranks_along_an_axis_differ_from_this_rank_only_there(cube):
    """
    Feature: DeviceMesh.
    Description: rank lists along every axis, for this rank and for all others.
    Expectation: numpy's line through the rank.
    """
    assert [cube.get_rank_list_along_axis(n) for n in CUBE_NAMES] == [[1, 7], [7, 9, 11], [6, 7]]
    for rank in range(12):
        where = [int(i) for i in np.argwhere(CUBE == rank)[0]]
        for axis, name in enumerate(CUBE_NAMES):
            line = list(where)
            line[axis] = slice(None)
            assert cube.get_devices_for_axis(name, rank) == CUBE[tuple(line)].tolist()
            assert cube.get_devices_for_axis(axis, rank) == CUBE[tuple(line)].tolist()


def test_local_ranks_are_coordinates(cube):
    """
    Feature: DeviceMesh.get_local_rank.
    Description: by index and name; without an axis on one and on several axes.
    Expectation: the coordinate; RuntimeError without an axis on several.
    """
    assert [cube.get_local_rank(0), cube.get_local_rank(mesh_dim="cp"), cube.get_local_rank("tp")] == [1, 0, 1]
    assert cube["tp"].get_local_rank() == 1 and cube["cp"].get_local_rank() == 0
    with pytest.raises(RuntimeError, match="get_local_rank needs an axis"):
        cube.get_local_rank()


def test_global_shapes_multiply_cut_dims(cube):
    """
    Feature: get_global_shape.
    Description: local (2, 5, 7) under maps of reversed indices, tuples and -1 among them.
    Expectation: each dim times the sizes of its axes; a map that does not fit is refused.
    """
    assert cube.get_global_shape((2, 5, 7), (2, -1, (1, 0))) == (4, 5, 42)
    assert cube.get_global_shape((2, 5, 7), ((-1, 0), 1, -1)) == (4, 15, 7) and cube.get_global_shape((), ()) == ()
    for tensor_map in (None, (2, -1)):
        with pytest.raises(ValueError, match="does not fit"):
            cube.get_global_shape((2, 5, 7), tensor_map)


def test_groups_are_made_on_first_use(cube):
    """
    Feature: groups of a mesh.
    Description: get_group by index, name and on 1-D meshes; all groups; by axis; an axis left out.
    Expectation: the group of the ranks along the axis; RuntimeError on several axes without one, ValueError for
        none.
    """
    group = cube.get_group("tp")
    assert group == cube.get_group(2) == cube.get_group(mesh_dim=-1) == cube["tp"].get_group()
    assert cube.get_all_groups() == [cube.get_group(n) for n in CUBE_NAMES] and len(set(cube.get_all_groups())) == 3
    assert cube.get_comm_group_by_axis("tp") == group == cube.get_comm_group_by_axis(2)
    with pytest.raises(RuntimeError, match="get_group needs an axis"):
        cube.get_group()
    for bad in ("xx", 3, None, 1.0):
        with pytest.raises(ValueError, match="axis"):
            cube.get_comm_group_by_axis(bad)


def test_a_group_outside_a_job_is_refused():
    """
    Feature: groups of a mesh.
    Description: get_group in a process without a process group.
    Expectation: RuntimeError that names the call to make.
    """
    mesh = DeviceMesh("cpu", [0], mesh_dim_names=("tp",), _init_backend=False)
    with pytest.raises(RuntimeError, match="init_process_group"):
        mesh.get_group("tp")


def test_a_mesh_is_made_from_groups(cube):
    """
    Feature: from_group.
    Description: one group alone; a list of groups with and without the mesh of ranks.
    Expectation: 1-D over the group's ranks; N-D with as many axes as groups, else MeshError.
    """
    made = DeviceMesh.from_group(cube.get_group("cp"), "npu", mesh_dim_names=("cp",))
    assert made.rank_list == (7, 9, 11) and made.mesh_dim_names == ("cp",)
    groups = cube.get_all_groups()
    assert DeviceMesh.from_group(groups, "npu", mesh=CUBE, mesh_dim_names=CUBE_NAMES) == cube
    for mesh in (None, CUBE.reshape(2, 6)):
        with pytest.raises(ValueError, match="3 groups"):
            DeviceMesh.from_group(groups, "npu", mesh=mesh)


def test_hashes_tell_permuted_meshes_apart():
    """
    Feature: to_hash, equality.
    Description: meshes of one shape with permuted ranks that share first and last rank; other names; other
        shapes.
    Expectation: all different, as keys and as values; equal ones are equal and hash alike.
    """
    with simulate(4):
        rows = [([[0, 1], [2, 3]], ("a", "b")), ([[0, 2], [1, 3]], ("a", "b")), ([[0, 1], [2, 3]], ("b", "a")),
                ([[0, 1], [2, 3]], None), ([0, 1, 2, 3], ("a",))]
        meshes = [DeviceMesh("cpu", ranks, mesh_dim_names=names) for ranks, names in rows]
        assert meshes[0].to_hash() == ((2, 2), ("a", "b"), (0, 1, 2, 3))
        assert len({m.to_hash() for m in meshes}) == len(meshes) == len({m.identity for m in meshes})
        assert all((a == b) is (i == j) for i, a in enumerate(meshes) for j, b in enumerate(meshes))
        twin = DeviceMesh("npu", [[0, 1], [2, 3]], mesh_dim_names=["a", "b"])
        assert twin == meshes[0] and hash(twin) == hash(meshes[0]) and twin.matches(meshes[0])
        assert meshes[0] != "mesh"


def test_init_device_mesh_returns_the_same_object_on_repeat():
    """
    Feature: init_device_mesh.
    Description: repeated calls with equal and with other arguments.
    Expectation: the very same mesh, or another one.
    """
    with simulate(8):
        made = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
        assert init_device_mesh("cpu", (2, 2), mesh_dim_names=["a", "b"]) is made
        others = (init_device_mesh("cpu", (2, 2)), init_device_mesh("cpu", (4,)),
                  init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "c")),
                  init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"), rank_list=(0, 2, 1, 3)))
        assert all(other is not made and other != made for other in others)


@pytest.mark.parametrize("rank, block", [(0, (0, 1, 2, 3)), (3, (0, 1, 2, 3)), (5, (4, 5, 6, 7))])
def test_the_default_ranks_are_the_block_around_this_rank(rank, block):
    """
    Feature: init_device_mesh.
    Description: a (2, 2) mesh in a job of 8 ranks without a rank list.
    Expectation: the four consecutive ranks that hold this one; a rank list is taken as given.
    """
    with simulate(8, rank=rank):
        assert init_device_mesh("npu", (2, 2)).rank_list == block
        assert init_device_mesh("npu", (2, 2), rank_list=[6, 4, 2, 0]).mesh.asnumpy().tolist() == [[6, 4], [2, 0]]


@pytest.mark.parametrize("ranks", [[[0, 1], [2, 3]], ((0, 1), (2, 3)), np.arange(4).reshape(2, 2),
                                   ms.Tensor(np.arange(4).reshape(2, 2))])
def test_ranks_come_as_list_tuple_array_or_tensor(ranks):
    """
    Feature: DeviceMesh.
    Description: the same ranks in four types; none at all.
    Expectation: the same mesh; without ranks one axis over the world.
    """
    with simulate(4):
        mesh = DeviceMesh("cpu", ranks, mesh_dim_names=("a", "b"))
        assert mesh.mesh_shape == (2, 2) and mesh.rank_list == (0, 1, 2, 3)
        assert DeviceMesh("cpu").rank_list == DeviceMesh("cpu", None).rank_list == (0, 1, 2, 3)


def test_the_virtual_axis_comes_last():
    """
    Feature: interleaved_parallel.
    Description: the name first and last.
    Expectation: allowed last only.
    """
    with simulate(4):
        assert init_device_mesh("npu", (2, 2), mesh_dim_names=("a", "interleaved_parallel")).ndim == 2
        with pytest.raises(ValueError, match="only allowed last"):
            init_device_mesh("npu", (2, 2), mesh_dim_names=("interleaved_parallel", "a"))


REFUSED = {
    "device type": (lambda: DeviceMesh("tpu", [0]), MeshError, "cpu, cuda, npu"),
    "type of ranks": (lambda: DeviceMesh("cpu", "01"), TypeError, "list, tuple or ndarray"),
    "set of ranks": (lambda: DeviceMesh("cpu", {0, 1}), TypeError, "Got set"),
    "0-d ranks": (lambda: DeviceMesh("cpu", np.array(0)), MeshError, "0-d"),
    "no ranks": (lambda: DeviceMesh("cpu", []), MeshError, "at least one"),
    "float ranks": (lambda: DeviceMesh("cpu", [0.5, 1.5]), MeshError, "ints"),
    "repeated ranks": (lambda: DeviceMesh("cpu", [0, 0]), MeshError, "distinct"),
    "negative ranks": (lambda: DeviceMesh("cpu", [-1, 0]), MeshError, "not negative"),
    "ranks beyond the job": (lambda: DeviceMesh("cpu", [0, 9]), MeshError, "rank 9"),
    "number of names": (lambda: DeviceMesh("cpu", [0, 1], mesh_dim_names=("a", "b")), MeshError, "one name per axis"),
    "repeated names": (lambda: DeviceMesh("cpu", [[0, 1]], mesh_dim_names=("a", "a")), MeshError, "unique"),
    "empty name": (lambda: DeviceMesh("cpu", [0], mesh_dim_names=("",)), MeshError, "non-empty"),
    "name of another type": (lambda: DeviceMesh("cpu", [0], mesh_dim_names=(1,)), MeshError, "strings"),
    "shape of another type": (lambda: init_device_mesh("cpu", [2]), TypeError, "tuple"),
    "shape as int": (lambda: init_device_mesh("cpu", 2), TypeError, "tuple"),
    "size 0": (lambda: init_device_mesh("cpu", (2, 0)), MeshError, "positive"),
    "float size": (lambda: init_device_mesh("cpu", (2.0,)), MeshError, "positive ints"),
    "empty shape": (lambda: init_device_mesh("cpu", ()), MeshError, "positive ints"),
    "names as text": (lambda: init_device_mesh("cpu", (2,), mesh_dim_names="tp"), TypeError, "tuple or list"),
    "length of ranks": (lambda: init_device_mesh("cpu", (2,), rank_list=(0, 1, 2)), MeshError, "needs 2 ranks"),
    "block beyond the job": (lambda: init_device_mesh("cpu", (16,)), MeshError, "rank 15"),
    "names by position": (lambda: init_device_mesh("cpu", (2,), ("tp",)), TypeError, "positional"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_mesh_that_does_not_exist_is_refused(name):
    """
    Feature: DeviceMesh, init_device_mesh.
    Description: ranks, names and shapes that do not fit, in a job of 4.
    Expectation: MeshError (a ValueError) or TypeError that says what is wrong.
    """
    make, error, text = REFUSED[name]
    with simulate(4), pytest.raises(error, match=text) as caught:
        make()
    assert error is TypeError or isinstance(caught.value, ValueError)


def test_unnamed_meshes_work_by_index_only():
    """
    Feature: meshes without axis names.
    Description: indices and names on a mesh made without names.
    Expectation: indices work; names raise, and say how to name the axes.
    """
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2))
        assert mesh.mesh_dim_names is None and [mesh.axis_name(i) for i in range(2)] == ["dim_0", "dim_1"]
        assert mesh.size(1) == 2 and mesh.get_local_rank(0) == 0 and mesh.get_group(0) != mesh.get_group(1)
        assert mesh.flatten("all").rank_list == (0, 1, 2, 3) and mesh.flatten().mesh_dim_names == ("dim_0_dim_1",)
        with pytest.raises(RuntimeError, match="mesh_dim_names"):
            _ = mesh["dp"]
        for call in (mesh.axis_index, mesh.axis_id, mesh.get_device_num_along_axis, mesh.get_rank_list_along_axis,
                     mesh.get_comm_group_by_axis):
            with pytest.raises(ValueError, match="no axis names"):
                call("dp")


def test_a_rank_outside_has_no_coordinate():
    """
    Feature: get_coordinate.
    Description: rank 3 of 4 asks a mesh over ranks 0 and 1.
    Expectation: None; get_local_rank refuses.
    """
    with simulate(4, rank=3):
        mesh = DeviceMesh("cpu", [0, 1], mesh_dim_names=("tp",))
        assert mesh.get_coordinate() is None and mesh.coordinate_of(1) == (1,)
        with pytest.raises(ValueError, match="Rank 3 is not in the mesh"):
            mesh.get_local_rank()


def test_with_mesh_makes_it_current(cube):
    """
    Feature: with mesh.
    Description: nested blocks, an exception inside, another thread.
    Expectation: the innermost mesh of this thread; RuntimeError outside.
    """
    with cube as entered, cube["tp"] as inner:
        assert entered is cube and get_current_mesh() is inner and _mesh_resources.get_current_mesh() is inner
        with pytest.raises(KeyError), cube["dp"]:
            raise KeyError
        assert get_current_mesh() is inner
        seen = []
        thread = threading.Thread(target=lambda: seen.append(_refuses_current()))
        thread.start()
        thread.join()
        assert seen == [True]
    assert _refuses_current()


def _refuses_current() -> bool:
    try:
        get_current_mesh()
    except RuntimeError as error:
        return "with mesh:" in str(error)
    return False


def test_copies_keep_the_root(cube):
    """
    Feature: copy, deepcopy, pickle.
    Description: the cube, a sub-mesh and a flattened mesh.
    Expectation: equal, with the same root; deepcopy shares it.
    """
    for mesh in (cube, cube["dp", "tp"], cube["cp", "tp"].flatten("flat")):
        for made in (copy.copy(mesh), copy.deepcopy(mesh), pickle.loads(pickle.dumps(mesh))):
            assert made == mesh and made.identity == mesh.identity and made.root_mesh == mesh.root_mesh
            assert made.mesh_dim_names == mesh.mesh_dim_names and made.device_type == mesh.device_type
        assert copy.deepcopy(mesh).root_mesh is mesh.root_mesh


def test_a_mesh_of_16384_ranks_answers_without_listing_them():
    """
    Feature: scale.
    Description: ranks along an axis and coordinates on a (128, 16, 8) mesh.
    Expectation: the right answers for first and last rank.
    """
    with simulate(16384, rank=16383):
        mesh = init_device_mesh("npu", (128, 16, 8), mesh_dim_names=CUBE_NAMES)
        assert mesh.get_rank_list_along_axis("tp") == list(range(16376, 16384))
        assert mesh.get_coordinate() == (127, 15, 7)
        assert mesh["dp"].size() == 128 and mesh["dp"].rank_list[0] == 127
