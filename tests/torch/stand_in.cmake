# Programs that name gloo, with UNISONO_STAND_IN=gloo (after python.cmake, whose function this uses).
if(NOT TARGET unisono_python)
  return()
endif()

unisono_python_test(stand_in_test TIMEOUT 1200 SHORT Ways.test_the_default_group_is_ours_by_every_name_of_gloo Ways.test_groups_that_name_gloo_are_ours Variable.test_gloo_is_gloo_without_the_variable
  Variable.test_an_unknown_value_is_refused Behaviour.test_every_call_is_checked_as_on_gloo)
# It skips what is not installed: scripts/get/frameworks --all.
unisono_python_test(gloo_programs_test TIMEOUT 1800 LONG)
