# The backend of torch.distributed, through Python.
# unisono_python_test(<file> [RANKS <n>...] [ARGUMENTS <argument>...] [SHORT <test>...] [TIMEOUT <seconds>] [LONG]): the file as that many processes;
# without RANKS it starts its own. With SHORT these tests of the file are a test, and all of them another one with the label long.
if(NOT TARGET unisono_python)
  return()
endif()

function(unisono_python_test file)
  cmake_parse_arguments(TEST "LONG" "TIMEOUT" "RANKS;ARGUMENTS;SHORT" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  set(program ${UNISONO_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/python/${file}.py ${TEST_ARGUMENTS})
  set(environment "PYTHONPATH=${PROJECT_BINARY_DIR}/python:${PROJECT_SOURCE_DIR}/tests/python;UNISONO_COMMAND=$<TARGET_FILE:unisono-tool>;OMP_NUM_THREADS=1")
  string(APPEND environment ";PYTHONDONTWRITEBYTECODE=1;COVERAGE_FOLDER=${PROJECT_BINARY_DIR}/coverage")
  set(names python_${file})
  if(TEST_RANKS)
    set(names)
    foreach(ranks IN LISTS TEST_RANKS)
      add_test(NAME python_${file}_${ranks}_processes COMMAND unisono-tool run -n ${ranks} -- ${program})
      set_tests_properties(python_${file}_${ranks}_processes PROPERTIES ENVIRONMENT "${environment};COVERAGE_RUN=python_${file}_${ranks}_processes")
      list(APPEND names python_${file}_${ranks}_processes)
    endforeach()
  else()
    add_test(NAME ${names} COMMAND ${program} ${TEST_SHORT})
    if(TEST_SHORT)
      add_test(NAME ${names}_whole COMMAND ${program})
      list(APPEND names ${names}_whole)
    endif()
    foreach(name IN LISTS names)
      set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment};COVERAGE_RUN=${name}")
    endforeach()
  endif()
  set_tests_properties(${names} PROPERTIES LABELS torch TIMEOUT ${TEST_TIMEOUT} PROCESSORS ${UNISONO_BUSY} COST 60)
  if(TEST_SHORT)
    set_property(TEST python_${file}_whole APPEND PROPERTY LABELS long)
  endif()
  if(TEST_LONG)
    set_property(TEST ${names} APPEND PROPERTY LABELS long)
  endif()
endfunction()

unisono_python_test(collectives_test RANKS 3)
unisono_python_test(collectives_test RANKS 2 LONG)
unisono_python_test(calls_test RANKS 2)
unisono_python_test(calls_test RANKS 3 LONG)
unisono_python_test(operators_test RANKS 2 3)
unisono_python_test(operators_compile_test RANKS 2)
unisono_python_test(operators_inductor_test RANKS 2 LONG TIMEOUT 600)
unisono_python_test(training_test RANKS 2 TIMEOUT 1200)
unisono_python_test(jobs_test TIMEOUT 1800 SHORT
  Jobs.test_a_job_of_torchrun_works Jobs.test_a_job_of_unisono_run_works Jobs.test_a_killed_rank_is_named Jobs.test_a_timeout_names_who_is_missing
  Jobs.test_calls_that_differ_move_nothing)
unisono_python_test(extensions_test TIMEOUT 1200 SHORT
  Choice Cache Jobs.test_a_missing_compiler_is_named Jobs.test_the_error_of_a_compiler_that_fails_is_told Jobs.test_an_extension_knows_no_python)
unisono_python_test(newest_test ARGUMENTS ${PROJECT_SOURCE_DIR}/build/python-newest/bin/python3 TIMEOUT 1800 LONG)
unisono_python_test(endings_test TIMEOUT 1800 SHORT
  Endings.test_an_exception_is_named Endings.test_a_rank_that_ends_well_has_left Endings.test_the_launcher_names_who_was_first
  Endings.test_the_survivors_form_another_group)
unisono_python_test(seen_test TIMEOUT 1200)
unisono_python_test(remote_test TIMEOUT 600 SHORT
  Remote.test_a_tensor_is_made_and_computed_on_its_worker Remote.test_an_error_names_operator_worker_and_shapes
  Remote.test_tensors_on_all_workers_have_the_collectives)
unisono_python_test(stores_test TIMEOUT 900)
unisono_python_test(many_runs_test TIMEOUT 900 LONG)
unisono_python_test(restarts_test TIMEOUT 1800 SHORT Restarts.test_the_job_recovers_from_an_exception_at_work)
unisono_python_test(errors_table_test TIMEOUT 900 LONG)  # as the rest of that document
# The rest of PyTorch's own suite, and all of it over gloo beside it: scripts/test/pytorch-suite.
unisono_python_test(run_pytorch_suite ARGUMENTS --quick --world-sizes 3 TIMEOUT 1800 LONG)
