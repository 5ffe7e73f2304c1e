// unisono._core: the functions of the library under their own names. The package unisono adds what is written in Python.

#include "module.h"

#include "failure.h"
#include "places.h"

NB_MODULE(_core, m) {
  using namespace unisono::python;
  m.doc() = "The library's functions. The package unisono has all of them.";
  nb::set_leak_warnings(false);  // what programs keep until they end is theirs
  register_failures();
  bind_places(m);
  bind_types(m);
  bind_groups(m);
  bind_grid(m);
  bind_stores(m);
  bind_membership(m);
  bind_joining(m);
  bind_context(m);
  bind_records(m);
  bind_work(m);
  bind_reductions(m);
  bind_with_place(m);
  bind_blocks(m);
  bind_counted(m);
  bind_lists(m);
  bind_messages(m);
  bind_resized(m);
  bind_objects(m);
  bind_any_value(m);
  bind_parameters(m);
  bind_elastic(m);
  bind_rank_control(m);
  bind_samplers(m);
  bind_loader_plan(m);
  bind_shared_memory(m);
  bind_launch(m);
  bind_xla(m);
  watch_signals();
}
