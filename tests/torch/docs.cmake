# docs/libtorch.md: its programs and all other C++ in it, as they stand there. The first program is that of tests/package/find_torch_test.sh.
set(docs_folder ${CMAKE_CURRENT_BINARY_DIR}/docs)
execute_process(COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs_blocks.sh ${PROJECT_SOURCE_DIR}/docs/libtorch.md ${docs_folder} COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/libtorch.md)
unisono_torch_test(torch_docs_test SOURCES docs_test.cpp ${docs_folder}/fragments.cpp RANKS 2)
target_include_directories(torch_docs_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
unisono_torch_test(torch_docs_train SOURCES ${docs_folder}/train.cpp RANKS 2)
# Where their files go.
set_tests_properties(torch_docs_test torch_docs_test_2_processes torch_docs_train torch_docs_train_2_processes PROPERTIES
  WORKING_DIRECTORY ${docs_folder} RESOURCE_LOCK torch_docs_files)

# The Python program, which finds the package in the build folder and so names it.
if(TARGET unisono_python)
  add_test(NAME torch_docs_ddp_2_processes COMMAND unisono-tool run -n 2 -- ${UNISONO_PYTHON} -c
    "import runpy, unisono.torch$<SEMICOLON> runpy.run_path('${docs_folder}/ddp.py', run_name='__main__')")
  set_tests_properties(torch_docs_ddp_2_processes PROPERTIES LABELS torch TIMEOUT 300 PROCESSORS 2
    ENVIRONMENT "OMP_NUM_THREADS=1;PYTHONPATH=${PROJECT_BINARY_DIR}/python")
endif()
