# unisono_find_torch() looks for PyTorch and makes the target unisono::libtorch. Sets Torch_FOUND, Torch_DIR, Torch_VERSION, TORCH_INSTALL_PREFIX and
# TORCH_CXX_FLAGS, as find_package(Torch) does. find_package(Torch) ends the configuration where PyTorch was built with CUDA and no suitable CUDA
# toolkit is found. unisono compiles no CUDA and needs headers and libraries only, so it takes these directly from a PyTorch with CUDA, unless the
# project has found PyTorch already or compiles CUDA.

# Sets the TorchConfig.cmake of a PyTorch with CUDA and its version; empty where there is none or another PyTorch comes first.
function(unisono_torch_with_cuda config version)
  set(given "${Torch_DIR}")
  find_package(Torch 99999 QUIET)  # no such version exists: the call only lists the candidates
  if(Torch_FOUND OR NOT given)
    unset(Torch_DIR CACHE)
  else()
    set(Torch_DIR "${given}" CACHE PATH "The directory with TorchConfig.cmake" FORCE)
  endif()
  set(${config} "" PARENT_SCOPE)
  if(Torch_CONSIDERED_CONFIGS)
    list(GET Torch_CONSIDERED_CONFIGS 0 first)
    list(GET Torch_CONSIDERED_VERSIONS 0 found)
    cmake_path(SET libraries NORMALIZE "${first}/../../../../lib")
    if(EXISTS ${libraries}/libtorch_cuda.so)
      set(${config} ${first} PARENT_SCOPE)
      set(${version} ${found} PARENT_SCOPE)
    endif()
  endif()
endfunction()

macro(unisono_find_torch)
  get_property(unisono_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  set(unisono_torch_config)
  if(NOT TARGET torch AND NOT "CUDA" IN_LIST unisono_languages)
    unisono_torch_with_cuda(unisono_torch_config Torch_VERSION)
  endif()
  if(unisono_torch_config)
    cmake_path(GET unisono_torch_config PARENT_PATH Torch_DIR)
    cmake_path(SET TORCH_INSTALL_PREFIX NORMALIZE "${Torch_DIR}/../../..")
    file(STRINGS ${unisono_torch_config} TORCH_CXX_FLAGS REGEX "_GLIBCXX_USE_CXX11_ABI=0")
    set(Torch_FOUND TRUE)
    # Programs use no symbol of libtorch.so directly, but it brings the part for CUDA, so it must not be dropped.
    set(unisono_torch_libraries -Wl,--push-state,--no-as-needed ${TORCH_INSTALL_PREFIX}/lib/libtorch.so -Wl,--pop-state
      ${TORCH_INSTALL_PREFIX}/lib/libtorch_cpu.so ${TORCH_INSTALL_PREFIX}/lib/libc10.so)
    set(unisono_torch_headers ${TORCH_INSTALL_PREFIX}/include ${TORCH_INSTALL_PREFIX}/include/torch/csrc/api/include)
  else()
    find_package(Torch QUIET)
    set(unisono_torch_libraries torch)
    set(unisono_torch_headers ${TORCH_INCLUDE_DIRS})
  endif()
  if(Torch_FOUND AND NOT TARGET unisono::libtorch)
    add_library(unisono::libtorch INTERFACE IMPORTED GLOBAL)
    target_link_libraries(unisono::libtorch INTERFACE ${unisono_torch_libraries})
    target_include_directories(unisono::libtorch INTERFACE ${unisono_torch_headers})
  endif()
endmacro()
