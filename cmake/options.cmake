option(UNISONO_BUILD_COMMAND "Build the unisono command" ${PROJECT_IS_TOP_LEVEL})
option(UNISONO_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(UNISONO_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(UNISONO_BUILD_BENCH "Build the benchmarks and the drivers of the peers that are found" ${PROJECT_IS_TOP_LEVEL})
option(UNISONO_INSTALL "Make the install target put the library, the command and the CMake package in place" ${PROJECT_IS_TOP_LEVEL})
option(UNISONO_DEVELOPER "Warnings are errors; the preset developer turns it on" OFF)
option(UNISONO_WHEEL "For the Python package: the prefix is its folder, in which no file is a link" OFF)
option(UNISONO_LONG_TESTS "With a sanitizer: also the programs of tests that other sanitized programs have nearly the same calls in" ON)
set(UNISONO_SANITIZE "" CACHE STRING "Sanitizers to build everything with: address,undefined or thread")
set_property(CACHE UNISONO_SANITIZE PROPERTY STRINGS "" "address,undefined" "thread")
option(UNISONO_FUZZ "Build what tests/fuzz has as fuzzers, with Clang's libFuzzer or AFL++; otherwise they only run the inputs that were kept" OFF)

# BUILD_SHARED_LIBS=OFF makes a static library. Plug-ins are linked against the shared one, so there are none then, nor the component torch, nor the
# Python package. (How the library itself finds out: UNISONO_STATIC.)
set(unisono_static FALSE)
if(DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS)
  set(unisono_static TRUE)
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

# A project that takes the sources in may have no build type, and then nothing is optimised. Its own targets stay so; ours would be many times slower.
set(unisono_own_optimisation FALSE)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND NOT CMAKE_CXX_FLAGS MATCHES "(^| )-O")
  set(unisono_own_optimisation TRUE)
  add_compile_options(-O2)
endif()
