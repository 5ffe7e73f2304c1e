unisono_torch_test(torch_objects_test SOURCES memory_test.cpp devices_test.cpp objects_test.cpp)

# Wrong calls do not compile, and the compiler says why.
get_target_property(torch_folders unisono::libtorch INTERFACE_INCLUDE_DIRECTORIES)
list(TRANSFORM torch_folders PREPEND "-isystem" OUTPUT_VARIABLE torch_includes)
set(compile ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only -I${PROJECT_SOURCE_DIR}/include ${torch_includes}
  ${CMAKE_CURRENT_SOURCE_DIR}/devices_refused.cpp)
set_property(GLOBAL APPEND PROPERTY UNISONO_TEST_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/devices_refused.cpp)
add_test(NAME torch_devices_compiles COMMAND ${compile} -DCASE=0)
set_tests_properties(torch_devices_compiles PROPERTIES LABELS "torch;compile" TIMEOUT 300)
function(torch_devices_refused number name sentence)
  add_test(NAME torch_devices_refuses_${name} COMMAND ${compile} -DCASE=${number})
  set_tests_properties(torch_devices_refuses_${name} PROPERTIES LABELS "torch;compile" TIMEOUT 300
    PASS_REGULAR_EXPRESSION "static assertion failed[^\n]*unisono: [^\n]*${sentence}")
endfunction()
torch_devices_refused(1 a_number "this is not data of tensors")
torch_devices_refused(2 text "this is not data of tensors")
torch_devices_refused(3 numbers "this is not data of tensors")
torch_devices_refused(4 out_of_another_type "out. is of another type than the data")
torch_devices_refused(5 a_set_to_write_to "out. is of another type than the data")
