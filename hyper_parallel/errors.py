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
"""The one error hierarchy of the package."""


class HyperParallelError(Exception):
    """Anything this package refuses on purpose."""


class LayoutError(HyperParallelError, ValueError):
    """A placement, layout or combination of layouts that denotes no tensor or has no sound rule."""


class PartialError(LayoutError):
    """An unreduced tensor used where only its reduced value has a meaning."""


class VerificationError(LayoutError):
    """A rule that was checked and found unsound, or could not be checked as asked."""


class MeshError(HyperParallelError, ValueError):
    """A device mesh that does not exist, or operands that live on different meshes."""


class UnsupportedOpError(HyperParallelError, RuntimeError):
    """An operation that has no distributed rule, or a feature that is not built yet."""


class CommunicationError(HyperParallelError, RuntimeError):
    """A collective that cannot be run as asked: wrong dtype, missing group, unequal shards."""
