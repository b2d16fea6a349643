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
"""A pytest plugin, `-p pytest_stand_ins`: unit tests of a checkout run on stand-ins where its framework is missing."""
import json
import os

import stand_ins

_NAMES = json.loads(os.environ["CHECKOUT_STAND_INS"])
stand_ins.install(os.getcwd(), _NAMES["frameworks"], _NAMES["packages"])
