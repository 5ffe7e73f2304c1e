unisono_torch_test(torch_data_test SOURCES data_test.cpp)
