# Tensors on the workers of a controller.
unisono_torch_test(torch_remote_test SOURCES remote_tensors_test.cpp remote_errors_test.cpp remote_collectives_test.cpp remote_training_test.cpp
  remote_processes_test.cpp remote_functions.cpp)
