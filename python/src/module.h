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

/// Binds a call of a group that returns a Work where it is given async_op=True, which `async` makes. Type checkers see two signatures.
template <class... A, class... Own>
void def_call(nb::module_& m, const std::string& name, nb::object (*blocking)(A...), nb::object (*async)(A...), const std::string& parameters,
              const std::string& async_parameters, const std::string& result, std::string_view text, const Own&... own) {
  constexpr bool has_choice = sizeof...(A) == sizeof...(Own) + 4;
  const auto head = [&](const std::string& of_it) {
    return "@typing.overload\ndef " + name + "(" + of_it + (of_it.empty() ? "" : ", ") +
           "group: ProcessGroup | None = None, *, timeout: Seconds = None, tag: int = 0" + (has_choice ? ", deterministic: bool = False" : "");
  };
  const std::string signature = head(async_parameters) + ", async_op: typing.Literal[True]) -> Work: ...\n" + head(parameters) +
                                ", async_op: typing.Literal[False] = False) -> " + result;
  const auto call = [blocking, async](A... arguments, bool async_op) { return async_op ? async(arguments...) : blocking(arguments...); };
  const auto def = [&](const auto&... choice) {
    m.def(name.c_str(), call, own..., nb::arg("group") = nb::none(), nb::kw_only(), nb::arg("timeout") = nb::none(), nb::arg("tag") = 0, choice...,
          nb::arg("async_op") = false, nb::sig(signature.c_str()), docstring_with_choice(text).c_str());
  };
  if constexpr (has_choice) def(nb::arg("deterministic") = false);
  else def();
}

/// The same, and its form that always returns at once.
template <class F, class... Own>
void def_both(nb::module_& m, const std::string& name, F* blocking, F* async, const std::string& parameters, const std::string& async_parameters,
              const std::string& result, std::string_view text, const AsyncText& async_text, const Own&... own) {
  def_call(m, name, blocking, async, parameters, async_parameters, result, text, own...);
  def_call(m, name + "_async", async, async_parameters, "Work", async_docstring(name, text, async_text), own...);
}

}  // namespace unisono::python
