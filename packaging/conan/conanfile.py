"""Conan 2 recipe of tern. In the repository's folder: conan create packaging/conan"""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load


class Tern(ConanFile):
    name = "tern"
    package_type = "library"
    license = "MIT"
    description = "Deep learning for the CPU, in C++20"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "mpi": [True, False]}
    default_options = {"shared": False, "mpi": False, "openblas/*:build_lapack": True,
                       "openblas/*:use_openmp": True}

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._root, "version.h"))
        self.version = re.search(r'kVersion = "([0-9.]+)"', text).group(1)

    def export_sources(self):
        for pattern in ("*.h", "*.cpp", "*.cmake", "*.in", "CMakeLists.txt",
                        "packaging/copyright"):
            copy(self, pattern, self._root, self.export_sources_folder,
                 excludes=("build*", "tests/*", "bench/*", "apps/*"))

    def requirements(self):
        for package in ("fmt/[>=9 <12]", "openblas/[>=0.3.20 <1]", "zlib/[>=1.2.11 <2]",
                        "utf8proc/[>=2.7 <3]", "libpng/[>=1.6 <2]", "libjpeg-turbo/[>=2.1 <4]"):
            self.requires(package, transitive_headers=True, transitive_libs=True)
        for package in ("nlohmann_json/[>=3.11 <4]", "kissfft/[>=131 <132]"):
            self.requires(package)  # headers, compiled in
        if self.options.mpi:
            self.requires("openmpi/[>=4.1 <5]", transitive_headers=True, transitive_libs=True)

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("tern needs Linux")

    def layout(self):
        self.folders.build = "build"
        self.folders.generators = "build"

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for name in ("TESTS", "APPS", "BENCH"):
            toolchain.cache_variables["TERN_" + name] = False
        toolchain.cache_variables["TERN_MPI"] = "ON" if self.options.mpi else "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="tern_libraries")

    def package(self):
        CMake(self).install(component="libraries")

    def package_info(self):
        # find_package(tern) reads tern's own files, which define tern::core and the rest.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "tern")]
