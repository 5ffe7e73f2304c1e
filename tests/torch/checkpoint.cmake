unisono_torch_test(torch_checkpoint_test SOURCES checkpoint_test.cpp checkpoint_refused_test.cpp)

if(UNISONO_BUILD_EXAMPLES AND TARGET unisono-tool)
  add_executable(torch_checkpoint_compare checkpoint_compare.cpp)
  target_link_libraries(torch_checkpoint_compare PRIVATE unisono_torch ${unisono_torch_fmt})
  unisono_reuse_precompiled(torch_checkpoint_compare unisono_torch_precompiled)
  set_target_properties(torch_checkpoint_compare PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME example_digits_torch COMMAND ${CMAKE_CURRENT_LIST_DIR}/checkpoint_digits.sh
    $<TARGET_FILE:digits_torch> $<TARGET_FILE:unisono-tool> $<TARGET_FILE:torch_checkpoint_compare> 2)
  add_test(NAME example_digits_torch_whole COMMAND ${CMAKE_CURRENT_LIST_DIR}/checkpoint_digits.sh
    $<TARGET_FILE:digits_torch> $<TARGET_FILE:unisono-tool> $<TARGET_FILE:torch_checkpoint_compare> 2 4)
  set_tests_properties(example_digits_torch example_digits_torch_whole PROPERTIES LABELS torch TIMEOUT 1200 PROCESSORS ${UNISONO_BUSY} COST 60
    ENVIRONMENT "OMP_NUM_THREADS=1;UNISONO_TIMEOUT=60")
  set_property(TEST example_digits_torch_whole APPEND PROPERTY LABELS long)
endif()
