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
"""Build script: metadata and requirements. The version comes from hyper_parallel/version.py alone."""
import pathlib
import runpy

from setuptools import find_packages, setup

ROOT = pathlib.Path(__file__).resolve().parent

RUN = ["numpy<2", "mindspore>=2.10,<2.11", "pyyaml>=6"]
TEST = ["pytest>=8,<10", "pytest-xdist>=3.6", "pytest-cov>=6", "hypothesis>=6.100", "psutil>=5.9", "rich>=13",
        "libcst>=1.5"]
DEV = ["nox>=2025.2.9", "pre-commit>=4"]
PLOT = ["matplotlib>=3.8"]

setup(
    name="hyper_parallel",
    version=runpy.run_path(str(ROOT / "hyper_parallel" / "version.py"))["__version__"],
    description="Distributed tensors for MindSpore whose layouts and gradients are exact",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="The hyper_parallel partial-sound fork authors",
    license="Apache-2.0",
    python_requires=">=3.10,<3.13",
    install_requires=RUN,
    extras_require={"test": TEST, "dev": TEST + DEV, "plot": PLOT},
    packages=find_packages(include=["hyper_parallel", "hyper_parallel.*"]),
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
