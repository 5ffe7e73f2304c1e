option(UNISONO_BUILD_COMMAND "Build the unisono command" ${PROJECT_IS_TOP_LEVEL})
option(UNISONO_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(UNISONO_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(UNISONO_BUILD_BENCH "Build the benchmarks and the drivers of the peers that are found" ${PROJECT_IS_TOP_LEVEL})
option(UNISONO_INSTALL "Make the install target put the library, the command and the CMake package in place" ${PROJECT_IS_TOP_LEVEL})
option(UNISONO_DEVELOPER "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
set(UNISONO_SANITIZE "" CACHE STRING "Sanitizers to build everything with: address,undefined or thread")
set_property(CACHE UNISONO_SANITIZE PROPERTY STRINGS "" "address,undefined" "thread")

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

# A project that takes the sources in may have no build type, and then nothing is optimised. Its own targets stay so; ours would be many times slower.
set(unisono_own_optimisation FALSE)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND NOT CMAKE_CXX_FLAGS MATCHES "(^| )-O")
  set(unisono_own_optimisation TRUE)
  add_compile_options(-O2)
endif()
