# The modules by the names of other systems, over torch.distributed. What compares them with the originals, side by side, is skipped where those are
# not installed (scripts/get/frameworks).
if(NOT TARGET unisono_python)
  message(STATUS "tests/python: unisono.ignite, mmengine, virtex, horovod and torch2018 are left out, the backend of torch.distributed is not built")
  return()
endif()
unisono_core_test(horovod_test RANKS 3 LONG_RANKS 1 2 4)
unisono_core_test(horovod_training_test RANKS 2 LONG_RANKS 1 3 4)
unisono_core_test(horovod_jobs_test TIMEOUT 900 SHORT Names Jobs.test_init_works_again_after_shutdown Jobs.test_a_killed_rank_is_an_internal_error_of_the_others)
unisono_core_test(horovod_elastic_test TIMEOUT 900 SHORT Alone Run.test_arguments_are_those_of_horovod_and_contradictions_are_refused Elastic.test_the_others_go_on_without_a_lost_rank)
unisono_core_test(ignite_test TIMEOUT 900 SHORT Names Alone Places Sides.test_two_processes_compute_what_the_original_does)
unisono_core_test(ignite_adaptors_test TIMEOUT 600)
unisono_core_test(ignite_jobs_test TIMEOUT 900 SHORT IgniteJobs.test_values_of_every_kind_arrive_as_they_are IgniteJobs.test_a_job_begins_again IgniteJobs.test_an_exception_that_leaves_parallel_is_told
  IgniteJobs.test_spawn_returns_results_and_raises_the_first_failure IgniteJobs.test_the_original_trains_together_in_a_group_of_unisono)
unisono_core_test(ignite_backends_test TIMEOUT 900 SHORT Refused Threads Horovod.test_two_ranks_compute_by_horovods_calls)
unisono_core_test(ignite_xla_test TIMEOUT 1800)  # skipped without scripts/get/xla
set_property(TEST python_core_ignite_xla_test APPEND PROPERTY LABELS long)
set_property(TEST python_core_ignite_xla_test APPEND PROPERTY ENVIRONMENT "XLA_PYTHON=${PROJECT_SOURCE_DIR}/build/python-xla/bin/python3")
unisono_core_test(mmengine_test TIMEOUT 900 SHORT Names Lists SideBySide.test_two_ranks_compute_what_the_original_does
  Better.test_examples_of_the_originals_documents_work Better.test_groups_count_their_own_ranks_and_turn_others_away
  Better.test_results_of_any_length_are_collected_and_a_missing_folder_is_an_error Better.test_results_in_files_are_taken_from_their_writers_alone)
unisono_core_test(mmengine_objects_test)
unisono_core_test(virtex_test TIMEOUT 600 SHORT Alone Jobs.test_launch_runs_a_job_in_several_processes)
unisono_core_test(torch2018_test RANKS 3 LONG_RANKS 1 2 4)
unisono_core_test(torch2018_master_test TIMEOUT 600)
unisono_core_test(torch2018_starts_test TIMEOUT 1200)
unisono_core_test(torch2018_jobs_test TIMEOUT 1200)
