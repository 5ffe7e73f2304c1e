# unisono/_core: the library's functions in Python. With the stable ABI from Python 3.12 on, one for all of them.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/*.cpp)
nanobind_add_module(unisono_core STABLE_ABI NB_STATIC NB_DOMAIN unisono NOMINSIZE NOSTRIP NB_SUPPRESS_WARNINGS ${sources})
# src/signatures.cpp stands between nanobind and these two; the types of functions are our own, and not those of another extension that was loaded first.
target_link_options(unisono_core PRIVATE -Wl,--wrap=PyErr_SetString -Wl,--wrap=PyObject_GenericGetAttr)
target_link_libraries(unisono_core PRIVATE unisono)
target_precompile_headers(unisono_core PRIVATE <nanobind/nanobind.h> <string> <vector> <optional> "${PROJECT_SOURCE_DIR}/include/unisono/unisono.h")
unisono_with_precompiled(unisono_core)
set_target_properties(unisono_core PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/unisono)
foreach(target nanobind-static nanobind-static-abi3)
  if(TARGET ${target})
    target_compile_options(${target} PRIVATE -w)
  endif()
endforeach()

# The stubs that type checkers and editors read.
nanobind_add_stub(unisono_core_stub MODULE unisono._core OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/unisono/_core.pyi
  PYTHON_PATH ${CMAKE_CURRENT_BINARY_DIR} PATTERN_FILE ${CMAKE_CURRENT_SOURCE_DIR}/src/stubs.pat DEPENDS unisono_core)

# In a wheel the package is the prefix; elsewhere the prefix has the library, and the package lies where its Python looks.
if(NOT UNISONO_INSTALL)
  return()
endif()
if(UNISONO_WHEEL)
  set(package_folder .)
  set_target_properties(unisono_core PROPERTIES INSTALL_RPATH $ORIGIN/${CMAKE_INSTALL_LIBDIR})
else()
  set(UNISONO_PYTHON_DIR ${CMAKE_INSTALL_LIBDIR}/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}/site-packages
    CACHE STRING "Where the Python package is installed")
  set(package_folder ${UNISONO_PYTHON_DIR}/unisono)
  set_target_properties(unisono_core PROPERTIES INSTALL_RPATH $ORIGIN/../../..)
  install(DIRECTORY unisono/ DESTINATION ${package_folder} COMPONENT python FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed"
    PATTERN "torch" EXCLUDE)
endif()
install(TARGETS unisono_core LIBRARY DESTINATION ${package_folder} COMPONENT python)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/unisono/_core.pyi DESTINATION ${package_folder} COMPONENT python)
