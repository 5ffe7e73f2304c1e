// unisono._core: the functions of the library under their own names. The package unisono adds what is written in Python.

#include "module.h"

#include "failure.h"

NB_MODULE(_core, m) {
  using namespace unisono::python;
  m.doc() = "The library's functions. The package unisono has all of them.";
  nb::set_leak_warnings(false);  // what programs keep until they end is theirs
  register_failures();
  for (Bind* const bind : {bind_places,          bind_types,      bind_groups,     bind_stores,  bind_joining,      bind_context,  bind_work,
                           bind_reductions,      bind_with_place, bind_blocks,     bind_counted, bind_lists,        bind_messages, bind_objects,
                           bind_object_messages, bind_any_value,  bind_parameters, bind_elastic, bind_rank_control, bind_loading,  bind_shared_memory,
                           bind_launch,          bind_future,     bind_controller, bind_xla}) {
    bind(m);
  }
  watch_signals();
}
