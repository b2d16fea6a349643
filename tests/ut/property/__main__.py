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
"""The long run: `python -m tests.ut.property --minutes 60 --seed 1`. Exit code 1 when something was found."""
import argparse
import os
import sys

os.environ.setdefault("GLOG_v", "4")  # read by the framework when it is first imported


def main() -> int:
    """Hunt, and say what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.ut.property", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="how long")
    parser.add_argument("--seed", type=int, default=1, help="of the first batch")
    options = parser.parse_args()
    import mindspore
    mindspore.runtime.launch_blocking()
    from tests.ut.property.check import TALLY
    from tests.ut.property.hunt import hunt
    found = hunt(options.minutes, options.seed)
    print(f"{TALLY}\nrefusals by operation: {dict(TALLY.refusals.most_common())}\nkinds of failures: {len(found)}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
