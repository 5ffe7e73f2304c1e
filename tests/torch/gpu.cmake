# auto_model on a GPU. scripts/test/gpu compiles and runs it where there is one; here it is compiled, and says what is missing.
add_executable(torch_gpu_training gpu_training.cpp)
target_link_libraries(torch_gpu_training PRIVATE unisono_torch ${unisono_torch_fmt})
unisono_reuse_precompiled(torch_gpu_training unisono_torch_precompiled)
set_target_properties(torch_gpu_training PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
set_property(GLOBAL APPEND PROPERTY UNISONO_TEST_SOURCES ${CMAKE_CURRENT_LIST_DIR}/gpu_training.cpp)
add_test(NAME torch_gpu_training COMMAND torch_gpu_training)
unisono_only_long(torch_gpu_training)
set_tests_properties(torch_gpu_training PROPERTIES LABELS "gpu;long" TIMEOUT 300 SKIP_RETURN_CODE 77)
