# Tensors on the workers of a controller: workers that are threads of the test, and processes where something is to die.
unisono_torch_test(torch_remote_test SOURCES remote_tensors_test.cpp remote_errors_test.cpp remote_collectives_test.cpp remote_training_test.cpp
  remote_functions.cpp)
unisono_torch_test(torch_remote_processes_test SOURCES remote_processes_test.cpp)
