#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

#include "docstrings.h"

namespace unisono::python {

namespace nb = nanobind;

/// Each adds a part of the module.
using Bind = void(nb::module_& m);
Bind bind_any_value, bind_blocks, bind_context, bind_controller, bind_counted, bind_elastic, bind_future, bind_groups, bind_joining, bind_launch,
    bind_lists, bind_loading, bind_messages, bind_object_messages, bind_objects, bind_parameters, bind_places, bind_rank_control, bind_reductions,
    bind_shared_memory, bind_stores, bind_types, bind_with_place, bind_work, bind_xla;

/// Signals that arrive while a call waits are handled then.
void watch_signals();

/// Binds a call of a group. `parameters` and `result` are those of its signature in Python, and `own` the same parameters; behind them come the
/// group, the timeout and the tag, and for a function that takes one more, whether it is deterministic.
/// `text` is what docstring() takes.
template <class R, class... A, class... Own>
void def_call(nb::module_& m, const std::string& name, R (*f)(A...), const std::string& parameters, const std::string& result, std::string_view text,
              const Own&... own) {
  constexpr bool has_choice = sizeof...(A) == sizeof...(Own) + 4;
  const std::string signature = "def " + name + "(" + parameters + (parameters.empty() ? "" : ", ") +
                                "group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0" +
                                (has_choice ? ", deterministic: bool = False" : "") + ") -> " + result;
  const auto def = [&](const auto&... choice) {
    m.def(name.c_str(), f, own..., nb::arg("group") = nb::none(), nb::kw_only(), nb::arg("timeout") = nb::none(), nb::arg("tag") = 0, choice...,
          nb::sig(signature.c_str()), docstring(text).c_str());
  };
  if constexpr (has_choice) def(nb::arg("deterministic") = false);
  else def();
}

/// The same of a call and of its form that returns at once.
template <class F, class... Own>
void def_both(nb::module_& m, const std::string& name, F* blocking, F* async, const std::string& parameters, const std::string& async_parameters,
              const std::string& result, std::string_view text, const AsyncText& async_text, const Own&... own) {
  def_call(m, name, blocking, parameters, result, text, own...);
  def_call(m, name + "_async", async, async_parameters, "Work", async_docstring(name, text, async_text), own...);
}

}  // namespace unisono::python
