# Tensors in device memory, on the stand-in of tests/nccl.
get_property(stand_in GLOBAL PROPERTY UNISONO_STAND_IN_ENVIRONMENT)
if(stand_in)
  unisono_torch_test(torch_device_memory_test SOURCES device_memory_test.cpp)
  add_dependencies(torch_device_memory_test unisono_nccl nccl_fake_library)
  set_property(TEST torch_device_memory_test APPEND PROPERTY ENVIRONMENT "${stand_in}")
else()
  set_property(GLOBAL APPEND PROPERTY UNISONO_TEST_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/device_memory_test.cpp)
endif()
