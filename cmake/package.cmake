# The Debian package: one with all there is but the Python package, which is a wheel, and the component torch, which belongs to one PyTorch.
# scripts/package/deb makes it, with the preset "deb".
if(NOT UNISONO_INSTALL OR NOT PROJECT_IS_TOP_LEVEL OR UNISONO_WHEEL)
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME unisono)
set(CPACK_PACKAGE_VENDOR "")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_SOURCE_DIR}/build/dist)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "processes of a job act as one: C++20 library and command")
set(CPACK_PACKAGE_DESCRIPTION
"unisono is a C++20 library and a command for jobs of several processes:
collectives (all_reduce, broadcast, all_gather, ...), messages between ranks,
and a launcher that starts, watches and ends them. Ranks of one host cooperate
in shared memory. Open MPI, MPICH, Gloo, UCX and NCCL are used where they
are installed; none of them is needed.
.
This package has the command, the library, its headers and CMake package.")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(UNISONO_DEB_MAINTAINER "The unisono authors <unisono@localhost>" CACHE STRING "Who answers for the Debian package: name and address")
mark_as_advanced(UNISONO_DEB_MAINTAINER)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${UNISONO_DEB_MAINTAINER})
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/prepare.cmake)
string(TIMESTAMP UNISONO_DEB_DATE "%Y-%m-%dT%H:%M:%SZ" UTC)
set(CPACK_UNISONO_DATE ${UNISONO_DEB_DATE})
set(CPACK_UNISONO_LIBDIR ${CMAKE_INSTALL_LIBDIR})
set(CPACK_UNISONO_CONTROL ${PROJECT_BINARY_DIR}/control)
set(CPACK_UNISONO_SONAME_VERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_UNISONO_SOURCE ${PROJECT_SOURCE_DIR})
include(CPack)
