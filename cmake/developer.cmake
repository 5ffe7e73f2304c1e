set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_compile_options(-Wall -Wextra -Wpedantic $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wshadow)  # Clang's warns of names in other sources that are compiled together
endif()
if(UNISONO_DEVELOPER)
  add_compile_options(-Werror)
endif()

# Some compilers link their standard library into what they make. Two libraries of a process that export one cannot live together.
add_link_options(-Wl,--exclude-libs,ALL)

if(UNISONO_SANITIZE)
  # A finding ends the program, so that a test with one fails. GCC warns that TSan does not see fences, and that is an error here.
  add_compile_options(-fsanitize=${UNISONO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${UNISONO_SANITIZE})
  if(UNISONO_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Werror=tsan)
  endif()
endif()

if(UNISONO_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "UNISONO_FUZZ needs Clang or AFL++'s afl-clang-fast++, and this is ${CMAKE_CXX_COMPILER_ID}: cmake --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)  # the library counts its branches for the fuzzer
endif()

# Programs that only `scripts/test.sh --long` runs. An ordinary build leaves them out; the target long_tests makes them.
if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(long_tests)
endif()
function(unisono_only_long)
  set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(long_tests ${ARGN})
endfunction()

# A compiler cache is used where there is one; -DCMAKE_CXX_COMPILER_LAUNCHER= turns it off. A build folder set up without one stays without, because
# another launcher changes the command lines and everything would be compiled again.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  if(NOT DEFINED UNISONO_CCACHE)
    find_program(unisono_ccache_found ccache NO_CACHE)
    if(NOT unisono_ccache_found)
      set(unisono_ccache_found "")
    endif()
    set(UNISONO_CCACHE "${unisono_ccache_found}" CACHE FILEPATH "The compiler cache; empty: none")
  endif()
  mark_as_advanced(UNISONO_CCACHE)
  if(UNISONO_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${UNISONO_CCACHE})
  endif()
endif()

# A compiler cache needs extra settings for precompiled headers.
function(unisono_with_precompiled target)
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
    set_target_properties(${target} PROPERTIES
      CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
  set_target_properties(${target} PROPERTIES PCH_WARN_INVALID OFF)  # an invalid one is then replaced by the headers themselves
endfunction()

# unisono_precompile(<target> <header>...) precompiles headers for the target's sources. unisono_reuse_precompiled(<target> <other>) uses those of the
# other target. Both are then compiled with -fPIC, also programs (which CMake gives -fPIE), because a compiler takes no precompiled header of another
# kind.
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

# unisono_compile_together(<target> [<most>]) lets the compiler read the sources of a folder together, <most> of them at a time, since they include
# mostly the same headers. Folders below the second level count with the one above them. Errors still name the file and line. -DUNISONO_COMPILE_TOGETHER=OFF compiles each source alone.
option(UNISONO_COMPILE_TOGETHER "Compile several sources at a time, which is quicker for all of them and slower for one" ON)
function(unisono_compile_together target)
  if(NOT UNISONO_COMPILE_TOGETHER)
    return()
  endif()
  set(most 16)
  if(ARGC GREATER 1)
    set(most ${ARGV1})
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/src OUTPUT_VARIABLE folder)
    string(REGEX MATCH "^[^/]*(/[^/]*)?" folder "${folder}")
    string(MAKE_C_IDENTIFIER "${folder}" key)
    list(APPEND folders ${key})
    list(APPEND of_${key} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(key IN LISTS folders)
    list(LENGTH of_${key} count)
    math(EXPR groups "(${count} + ${most} - 1) / ${most}")  # groups of about the same size
    set(number 0)
    foreach(source IN LISTS of_${key})
      math(EXPR group "${number} * ${groups} / ${count}")
      set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${key}_${group})
      math(EXPR number "${number} + 1")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
