set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
if(UNISONO_DEVELOPER)
  add_compile_options(-Werror)
endif()

if(UNISONO_SANITIZE)
  # A finding ends the program, so that a test with one fails. TSan does not see fences; GCC says so, and that stays an error for developers.
  add_compile_options(-fsanitize=${UNISONO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${UNISONO_SANITIZE})
endif()

# A compiler cache where there is one; say -DCMAKE_CXX_COMPILER_LAUNCHER= to go without.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(UNISONO_CCACHE ccache)
  mark_as_advanced(UNISONO_CCACHE)
  if(UNISONO_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${UNISONO_CCACHE})
  endif()
endif()

# Precompiled headers, which a compiler cache has to be told of.
function(unisono_with_precompiled target)
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
    set_target_properties(${target} PROPERTIES
      CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
  set_target_properties(${target} PROPERTIES PCH_WARN_INVALID OFF)  # then the headers are read as ever
endfunction()

# unisono_precompile(<target> <header>...): the sources of the target start from these. unisono_reuse_precompiled(<target> <other>): from those of the
# other target, for which both are compiled with -fPIC, programs too (CMake gives these -fPIE, and a compiler takes no header of another kind).
function(unisono_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  unisono_with_precompiled(${target})
endfunction()
function(unisono_reuse_precompiled target other)
  target_precompile_headers(${target} REUSE_FROM ${other})
  unisono_with_precompiled(${target})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()
