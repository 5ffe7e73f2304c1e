"""The recipe for Conan 2: `conan create packaging/conan --build missing`.

scripts/check/recipes --build builds it with `-o "unisono/*:system_libraries=True"`, on the libraries of Debian; so far it was read, exported and
begun to be configured. Those of ConanCenter are not tried."""

import os
import re
import shutil

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.gnu import PkgConfigDeps

SOURCES = ("cmake", "docs", "include", "src", "tools")


class Unisono(ConanFile):
    name = "unisono"
    description = "The processes of a job act as one: collectives, messages and objects between processes"
    license = "BSD-3-Clause"
    url = homepage = "https://unisono.example/unisono"
    topics = ("collectives", "distributed", "mpi")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "command": [True, False], "system_libraries": [True, False]}
    default_options = {"shared": True, "command": True, "system_libraries": False}

    def set_version(self):
        numbers = re.findall(r"VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", load(self, os.path.join(self.recipe_folder, "../../include/unisono/version.h")))
        self.version = ".".join(numbers)

    def export_sources(self):
        root, exported = os.path.join(self.recipe_folder, "../.."), self.export_sources_folder
        for folder in SOURCES:
            copy(self, "*", os.path.join(root, folder), os.path.join(exported, folder))
        copy(self, "CMakeLists.txt", os.path.join(root, "python"), os.path.join(exported, "python"))
        for name in ("CMakeLists.txt", "LICENSE"):
            shutil.copy(os.path.join(root, name), exported)

    def requirements(self):
        if self.options.system_libraries:
            return
        self.requires("openssl/[>=3 <4]")
        self.requires("fmt/[>=9 <12]", visible=False)
        self.requires("highway/[>=1]", visible=False)
        if self.options.command:
            self.requires("cli11/[>=2]", visible=False)
            self.requires("nlohmann_json/[>=3.11]", visible=False)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({
            "UNISONO_BUILD_COMMAND": bool(self.options.command), "UNISONO_BUILD_TESTS": False, "UNISONO_BUILD_EXAMPLES": False, "UNISONO_BUILD_BENCH": False,
            "UNISONO_BUILD_PYTHON": "OFF", "UNISONO_TORCH": "OFF"})
        toolchain.generate()
        CMakeDeps(self).generate()
        PkgConfigDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # find_package finds the project's own CMake package.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/unisono"]
        self.cpp_info.libs = ["unisono"]
        self.cpp_info.system_libs = ["pthread", "dl"]
