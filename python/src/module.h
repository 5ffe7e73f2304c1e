#pragma once

#include <nanobind/nanobind.h>

namespace unisono::python {

namespace nb = nanobind;

void bind_types(nb::module_& m);
void bind_work(nb::module_& m);
void bind_context(nb::module_& m);
void bind_joining(nb::module_& m);
void bind_groups(nb::module_& m);
void bind_grid(nb::module_& m);
void bind_membership(nb::module_& m);
void bind_records(nb::module_& m);
void bind_reductions(nb::module_& m);
void bind_with_place(nb::module_& m);
void bind_blocks(nb::module_& m);
void bind_counted(nb::module_& m);
void bind_lists(nb::module_& m);
void bind_messages(nb::module_& m);
void bind_resized(nb::module_& m);
void bind_objects(nb::module_& m);
void bind_any_value(nb::module_& m);
void bind_parameters(nb::module_& m);
void bind_rank_control(nb::module_& m);
void bind_samplers(nb::module_& m);
void bind_loader_plan(nb::module_& m);
void bind_stores(nb::module_& m);
void bind_shared_memory(nb::module_& m);
void bind_launch(nb::module_& m);
void bind_elastic(nb::module_& m);
void bind_xla(nb::module_& m);

/// Signals that arrive while a call waits are handled then.
void watch_signals();

}  // namespace unisono::python
