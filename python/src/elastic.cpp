// Jobs that go on without lost ranks, and take new ones in.

#include "unisono/elastic.h"

#include <nanobind/stl/string.h>

#include <string>

#include "arguments.h"
#include "docs/elastic.h"
#include "docs/rank_control.h"
#include "elastic_state.h"
#include "failure.h"
#include "module.h"
#include "places.h"
#include "signals.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

// Python's collector looks through a state: the things that it lists may refer to the state again, as the function of a training does.

int visit_entries(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (const auto& entry : nb::inst_ptr<PythonState>(self)->entries()) {
    Py_VISIT(entry->value().ptr());
    Py_VISIT(entry->second().ptr());
  }
  return 0;
}

int clear_entries(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  for (const auto& entry : nb::inst_ptr<PythonState>(self)->entries()) entry->clear();
  return 0;
}

PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(visit_entries)}, {Py_tp_clear, reinterpret_cast<void*>(clear_entries)}, {0, nullptr}};

void make_state(PythonState* place, const nb::kwargs& entries) {
  new (place) PythonState();
  try {
    for (const auto& [name, value] : entries) place->add(nb::cast<std::string>(name), nb::borrow(value));
  } catch (...) {
    place->~PythonState();
    throw;
  }
}

ElasticEntry* listed(nb::handle self, const std::string& name) {
  return nb::inst_ready(self) ? nb::inst_ptr<PythonState>(self)->find(name) : nullptr;
}

nb::object attribute(nb::handle self, const std::string& name) {
  if (const ElasticEntry* const entry = listed(self, name)) return entry->value();
  throw nb::attribute_error(("this ElasticState lists no \"" + name + "\"").c_str());
}

void set_attribute(nb::handle self, const std::string& name, nb::object value) {
  if (ElasticEntry* const entry = listed(self, name)) return entry->assign(std::move(value));
  const bool is_own = nb::hasattr(nb::type<PythonState>(), name.c_str());
  if (PyObject_GenericSetAttr(self.ptr(), nb::str(name.c_str(), name.size()).ptr(), value.ptr()) == 0) return;
  nb::python_error error;
  if (is_own || !error.matches(PyExc_AttributeError)) throw std::move(error);
  throw nb::attribute_error(("this ElasticState lists no \"" + name + "\": buffer and object add it").c_str());
}

ElasticEntry& item(const PythonState& state, const std::string& name) {
  if (ElasticEntry* const entry = state.find(name)) return *entry;
  throw nb::key_error(name.c_str());
}

std::string text_of(const PythonState& state) {
  std::string text = "<unisono.ElasticState of step " + std::to_string(state.state.step) + ":";
  for (const auto& entry : state.entries()) text += " " + entry->name();
  return text + ">";
}

/// Lets go of the buffers of a call that has ended in any way.
struct Released {
  const PythonState& state;
  ~Released() { state.release(); }
};

int bring_together(PythonState& state, nb::handle group) {
  const ProcessGroup& ranks = group_of(group, "synchronize");
  const Released released{state};
  return unlocked([&, where = place_of_program()] { return synchronize(state.state, ranks, where); });
}

bool are_newcomers_waiting(nb::handle group) {
  const ProcessGroup& ranks = group_of(group, "newcomers_waiting");
  return unlocked([&, where = place_of_program()] { return newcomers_waiting(ranks, where); });
}

bool goes_on(nb::handle step, const ProcessGroup& group) {
  const nb::object result = step(group);
  if (result.is_none()) throw_invalid("run_elastic", "the step returned None", "it returns True to be called again, and False when all is done");
  const int truth = PyObject_IsTrue(result.ptr());
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}

ProcessGroup run(PythonState& state, nb::handle step) {
  if (PyCallable_Check(step.ptr()) == 0) {
    throw_invalid("run_elastic", "the step is a function of the group", "it returns True to be called again, and False when all is done");
  }
  const Released released{state};
  const std::source_location where = place_of_program();
  const Unlocked unlocked;
  return run_elastic(
      state.state, [&](const ProcessGroup& group) { return locked([&] { return goes_on(step, group); }); }, where);
}

nb::class_<PythonState> bind_state(nb::module_& m) {
  return nb::class_<PythonState>(m, "ElasticState", nb::type_slots(slots), docs::elastic_state)
      .def("__init__", &make_state, nb::sig("def __init__(self, **entries: typing.Any) -> None"))
      .def_prop_rw(
          "step", [](const PythonState& state) { return state.state.step; }, [](PythonState& state, std::int64_t step) { state.state.step = step; },
          "The number of steps that are done. The program counts it up when a step is complete: all that is listed has changed.")
      .def("buffer", &PythonState::add_buffer, "name"_a, "x"_a.none(), "done"_a = nb::none(), nb::rv_policy::reference,
           nb::sig("def buffer(self, name: str, x: Buffer | collections.abc.Callable[[], Buffer], "
                   "done: collections.abc.Callable[[bool], typing.Any] | None = None) -> ElasticState"),
           docs::state_buffer)
      .def("object", &PythonState::add_object, "name"_a, "x"_a.none(), nb::rv_policy::reference,
           nb::sig("def object(self, name: str, x: typing.Any) -> ElasticState"), docs::state_object)
      .def("bytes", &PythonState::add_bytes, "name"_a, "write"_a.none(), "read"_a.none(), nb::rv_policy::reference,
           nb::sig("def bytes(self, name: str, write: collections.abc.Callable[[], Buffer], "
                   "read: collections.abc.Callable[[typing.Any], collections.abc.Callable[[], typing.Any] | None]) -> ElasticState"),
           docs::state_bytes);
}

void bind_names(nb::class_<PythonState> type) {
  type.def("__getattr__", &attribute, "name"_a, nb::sig("def __getattr__(self, name: str, /) -> typing.Any"))
      .def("__setattr__", &set_attribute, "name"_a, "value"_a.none(), nb::sig("def __setattr__(self, name: str, value: typing.Any, /) -> None"))
      .def(
          "__getitem__", [](const PythonState& state, const std::string& name) { return item(state, name).value(); }, "name"_a,
          nb::sig("def __getitem__(self, name: str, /) -> typing.Any"))
      .def(
          "__setitem__", [](PythonState& state, const std::string& name, nb::object value) { item(state, name).assign(std::move(value)); }, "name"_a,
          "value"_a.none(), nb::sig("def __setitem__(self, name: str, value: typing.Any, /) -> None"))
      .def(
          "__contains__", [](const PythonState& state, const std::string& name) { return state.find(name) != nullptr; }, "name"_a,
          nb::sig("def __contains__(self, name: str, /) -> bool"))
      .def("__repr__", &text_of);
}

}  // namespace

void bind_elastic(nb::module_& m) {
  bind_names(bind_state(m));
  m.def("synchronize", &bring_together, "state"_a, "group"_a = nb::none(),
        nb::sig("def synchronize(state: ElasticState, group: ProcessGroup | None = None) -> int"), docstring(docs::synchronize).c_str());
  m.def("newcomers_waiting", &are_newcomers_waiting, "group"_a = nb::none(),
        nb::sig("def newcomers_waiting(group: ProcessGroup | None = None) -> bool"), docstring(docs::newcomers_waiting).c_str());
  m.def(
      "grow_group", [](const ProcessGroup& group) { return unlocked([&, where = place_of_program()] { return grow_group(group, where); }); },
      "group"_a, docs::grow_group);
  m.def("run_elastic", &run, "state"_a, "step"_a.none(),
        nb::sig("def run_elastic(state: ElasticState, step: collections.abc.Callable[[ProcessGroup], bool]) -> ProcessGroup"),
        docstring(docs::run_elastic).c_str());
}

}  // namespace unisono::python
