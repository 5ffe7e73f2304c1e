unisono_torch_test(torch_elastic_test SOURCES elastic_test.cpp data_parallel_world.cpp every_world.cpp RANKS 3)

if(UNISONO_BUILD_EXAMPLES AND TARGET unisono-tool)
  add_test(NAME example_digits_torch_elastic COMMAND ${CMAKE_CURRENT_LIST_DIR}/elastic_digits.sh $<TARGET_FILE:digits_torch_elastic> $<TARGET_FILE:unisono-tool>)
  set_tests_properties(example_digits_torch_elastic PROPERTIES LABELS torch TIMEOUT 600 PROCESSORS ${UNISONO_BUSY} COST 30
    ENVIRONMENT "OMP_NUM_THREADS=1;UNISONO_TIMEOUT=60")
endif()
