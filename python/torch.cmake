# The backend of torch.distributed: one extension for the PyTorch of this build, unisono/torch/extensions/torch-<minor version>.so. Nothing in it knows
# Python. It is compiled with the sources that the package carries for other versions (python/unisono/torch/_compile.py).
if(NOT torch_is_pythons)
  unisono_note("the Python of this PyTorch: set UNISONO_PYTHON (Python package)" python3 FALSE)
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/torch/python/*.cpp ${PROJECT_SOURCE_DIR}/src/torch/remote/*.cpp)
# The extension needs some files of the component torch: tensors as buffers, in shared memory, and on the workers of a controller.
add_library(unisono_python MODULE ${sources} ${PROJECT_SOURCE_DIR}/src/torch/tensor.cpp ${PROJECT_SOURCE_DIR}/src/torch/memory.cpp)
target_include_directories(unisono_python PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(unisono_python PRIVATE unisono unisono::libtorch ${unisono_torch_fmt})
unisono_reuse_precompiled(unisono_python unisono_torch_precompiled)
unisono_compile_together(unisono_python)
target_compile_options(unisono_python PRIVATE -fvisibility=hidden)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" torch_minor "${Torch_VERSION}")
set(package ${CMAKE_CURRENT_BINARY_DIR}/unisono/torch)
set_target_properties(unisono_python PROPERTIES PREFIX "" OUTPUT_NAME torch-${torch_minor} LIBRARY_OUTPUT_DIRECTORY ${package}/extensions)

file(CONFIGURE OUTPUT ${package}/_version.py CONTENT "VERSION = \"@PROJECT_VERSION@\"\n" @ONLY)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src ${package}/sources SYMBOLIC)

# In an installed package the library lies in the prefix.
if(NOT DEFINED UNISONO_PYTHON_DIR)
  set(Python3_EXECUTABLE ${UNISONO_PYTHON})
  find_package(Python3 COMPONENTS Interpreter QUIET)
  set(UNISONO_PYTHON_DIR ${CMAKE_INSTALL_LIBDIR}/python${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}/site-packages
    CACHE STRING "Where the Python package is installed")
endif()
set(package_folder ${UNISONO_PYTHON_DIR}/unisono)
set_target_properties(unisono_python PROPERTIES INSTALL_RPATH "$ORIGIN/../../../../..;${TORCH_INSTALL_PREFIX}/lib")
install(TARGETS unisono_python LIBRARY DESTINATION ${package_folder}/torch/extensions COMPONENT python)
install(FILES ${package}/_version.py DESTINATION ${package_folder}/torch COMPONENT python)
install(DIRECTORY unisono/ DESTINATION ${package_folder} COMPONENT python FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/torch/python ${PROJECT_SOURCE_DIR}/src/torch/remote DESTINATION ${package_folder}/torch/sources/torch COMPONENT python)
install(FILES ${PROJECT_SOURCE_DIR}/src/torch/tensor.cpp ${PROJECT_SOURCE_DIR}/src/torch/memory.cpp DESTINATION ${package_folder}/torch/sources/torch
  COMPONENT python)
install(FILES ${PROJECT_SOURCE_DIR}/src/base/thread.h DESTINATION ${package_folder}/torch/sources/base COMPONENT python)
