# Programs that name gloo, with UNISONO_STAND_IN=gloo (after python.cmake, whose function this uses).
if(NOT TARGET unisono_python)
  return()
endif()

unisono_python_test(stand_in_test TIMEOUT 1200 SHORT Ways.test_the_default_group_by_every_name Ways.test_groups Variable.test_gloo_is_gloo_without_the_variable
  Variable.test_an_unknown_value Behaviour.test_checks_of_every_call)
# It skips what is not installed: scripts/get/frameworks --all.
unisono_python_test(gloo_programs_test TIMEOUT 1800 LONG)
