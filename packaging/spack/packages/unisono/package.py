# The package for Spack: `spack repo add packaging/spack`. scripts/check/recipes parses it; it was not built.

from spack.package import *


class Unisono(CMakePackage):
    """The processes of a job act as one: collectives, messages and objects between processes, in C++ and Python."""

    homepage = "https://unisono.example/unisono"
    git = "https://unisono.example/unisono.git"

    license("BSD-3-Clause")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("python", default=False, description="The Python package")
    variant("etcd", default=False, description="Meetings in etcd")
    variant("gloo", default=False, description="The backend gloo")
    variant("mpi", default=False, description="The backend mpi")
    variant("ucx", default=False, description="The backend ucx")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("cli11", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("fmt@9:")
    depends_on("highway@1:")
    depends_on("openssl@3:")
    depends_on("curl", when="+etcd")
    depends_on("gloo", when="+gloo")
    depends_on("mpi", when="+mpi")
    depends_on("ucx", when="+ucx")
    with when("+python"):
        extends("python@3.10:")
        depends_on("py-nanobind@2.9:", type="build")

    conflicts("%gcc@:11", msg="C++20")
    generator("ninja")

    def cmake_args(self):
        return [
            self.define("UNISONO_BUILD_TESTS", False),
            self.define("UNISONO_BUILD_EXAMPLES", False),
            self.define("UNISONO_BUILD_BENCH", False),
            self.define("UNISONO_TORCH", "OFF"),
            self.define("UNISONO_BUILD_PYTHON", "ON" if self.spec.satisfies("+python") else "OFF"),
            self.define_from_variant("UNISONO_ETCD", "etcd"),
        ]
