# unisono.jax. Without JAX its tests are left out; scripts/get/jax fetches it.
set_property(GLOBAL APPEND PROPERTY UNISONO_TEST_SOURCES ${CMAKE_CURRENT_LIST_DIR}/xla_ffi_layout.cpp)
execute_process(COMMAND ${UNISONO_PYTHON} -c "import jax.ffi; print(jax.__version__, jax.ffi.include_dir(), sep=';')"
  OUTPUT_VARIABLE unisono_jax OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT unisono_jax)
  message(STATUS "tests/python: unisono.jax is left out, ${UNISONO_PYTHON} has no JAX (scripts/get/jax fetches it)")
  return()
endif()
list(GET unisono_jax 0 unisono_jax_version)
list(GET unisono_jax 1 unisono_jax_headers)
# What is left out of the short run compiles most.
unisono_core_test(jax_test RANKS 2 LONG_RANKS 1 3 4 TIMEOUT 1200 SHORT Operations Flow Refusals
  Derivatives.test_gradient_is_that_of_the_sum_of_all_losses Batches.test_vmap_is_one_call_for_the_batch)
unisono_core_test(jax_jobs_test SHORT Jobs.test_a_rank_that_dies_is_named Jobs.test_shapes_of_one_length_are_compared_where_that_is_asked_for TIMEOUT 900)

# The structures of XLA's foreign function interface, as this jaxlib has them and as they are written down here.
add_library(python_xla_ffi_layout OBJECT ${CMAKE_CURRENT_LIST_DIR}/xla_ffi_layout.cpp)
# A header in C, in which members have the names of their types.
target_compile_options(python_xla_ffi_layout PRIVATE -fpermissive)
target_include_directories(python_xla_ffi_layout PRIVATE ${PROJECT_SOURCE_DIR}/python/src)
target_include_directories(python_xla_ffi_layout SYSTEM PRIVATE ${unisono_jax_headers})
