// A controller and its workers: what Python calls on them, and how a worker carries it out.

#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "arguments.h"
#include "docs/controller.h"
#include "failure.h"
#include "frames.h"
#include "future.h"
#include "imports.h"
#include "module.h"
#include "places.h"
#include "signals.h"
#include "unisono/detail/object_seal.h"
#include "unisono/detail/remote_call.h"
#include "unisono/detail/remote_errors.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

nb::object serving(const char* name) { return imported("unisono._serving").attr(name); }

/// Returns bytes that are large enough as what travels in parts, without a copy. They arrive as bytes, or as a bytearray.
nb::object out_of_band(nb::handle x) {
  const bool are_bytes = PyBytes_CheckExact(x.ptr()) || PyByteArray_CheckExact(x.ptr());
  if (!are_bytes || nb::len(x) < detail::least_part) return nb::borrow(x);
  return imported("pickle").attr("PickleBuffer")(x);
}

nb::object out_of_band(const nb::tuple& arguments) {
  if (std::ranges::none_of(arguments, [](nb::handle x) { return !out_of_band(x).is(x); })) return arguments;
  nb::list all;
  for (const nb::handle each : arguments) all.append(out_of_band(each));
  return nb::tuple(all);
}

nb::object out_of_band(const nb::dict& arguments) {
  if (arguments.size() == 0) return arguments;
  nb::dict all;
  for (const auto& [name, value] : arguments) all[name] = out_of_band(value);
  return all;
}

// On a worker.

/// Tells the controller of an exception. It travels as data, with the exception as a pickle inside, if that can be.
detail::Frame frame_of_failure(nb::handle exception, Form form) {
  return frame_of(serving("failed")(exception, form == Form::pickle), Form::data, true, "call");
}

/// Returns what was sent, in the controller's form. Throws InvalidArgument if this process cannot read it.
Received request_in(detail::Frame& arguments) {
  try {
    if (form_of(arguments) == Form::pickle) {
      if (const auto refusal = detail::why_no_pickles(detail::everyone())) std::rethrow_exception(refusal);
    }
    Received request = received(arguments);
    arguments = {};
    return request;
  } catch (nb::python_error& error) {
    throw InvalidArgument(
        "the worker cannot read what it was sent: " + std::string(Raised(error).what()),
        {.hint = "functions and classes are found by their names: they stand at the top level of a module, or of the program's file "
                 "above the line that makes the controller"});
  }
}

/// Returns the frame of a result. Throws InvalidArgument if it cannot travel.
detail::Frame frame_of_result(const nb::object& result, Form form) {
  try {
    return frame_of(form == Form::pickle ? out_of_band(result) : result, form, false, "call");
  } catch (const Raised& why) {
    throw InvalidArgument("the result, a " + kind_name(result) + ", cannot be sent: " + why.what());
  }
}

nb::object called(nb::handle function, nb::handle arguments, nb::handle keywords) {
  PyObject* const result = PyObject_Call(function.ptr(), arguments.ptr(), keywords.ptr());
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

/// Carries out a call: function_of(target, is_data) is what is called.
template <class F>
detail::Frame carry_out(detail::Frame& arguments, F&& function_of) {
  Received request = request_in(arguments);
  nb::object result;
  try {
    const nb::object all = std::move(request.object);
    const nb::object function = function_of(all[0], request.form);
    result = called(function, all[1], all[2]);
  } catch (nb::python_error& error) {
    if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();  // the worker ends with it once the controller knows
    return frame_of_failure(error.value(), request.form);
  }
  return frame_of_result(result, request.form);
}

detail::Frame run_function(detail::RemoteRun& /*run*/, detail::Frame&& arguments) {
  return locked([&] {
    return carry_out(arguments,
                     [](nb::handle target, Form form) { return form == Form::data ? serving("function_of")(target) : nb::borrow(target); });
  });
}

/// An object that could not be made is put in its place: calls of its methods raise why.
detail::Frame run_maker(detail::RemoteRun& run, detail::Frame&& arguments) {
  return locked([&] {
    return carry_out(arguments, [&](nb::handle target, Form form) {
      return serving("maker_of")(target, form == Form::data,
                                 nb::cpp_function([&run](nb::object made) { run.object = Kept(std::move(made)).owner(); }));
    });
  });
}

detail::Frame run_method(detail::RemoteRun& run, detail::Frame&& arguments) {
  return locked([&] {
    return carry_out(arguments,
                     [&](nb::handle name, Form /*form*/) { return serving("method_of")(*std::static_pointer_cast<nb::object>(run.object), name); });
  });
}

using Kind = detail::RemoteFunction::Kind;
const detail::RemoteFunction& registered(const char* name, const char* signature, Kind kind,
                                         detail::Frame (*run)(detail::RemoteRun&, detail::Frame&&)) {
  return detail::register_remote({.name = name,
                                  .signature = signature,
                                  .kind = kind,
                                  .actor = kind == Kind::function ? "" : "object of Python",
                                  .run = run,
                                  .memory = &memory_of_part});
}
const detail::RemoteFunction& function() {
  static const auto& one = registered("call", "(function of Python, arguments) -> object", Kind::function, &run_function);
  return one;
}
const detail::RemoteFunction& maker() {
  static const auto& one = registered("make", "(class of Python, arguments)", Kind::maker, &run_maker);
  return one;
}
const detail::RemoteFunction& method() {
  static const auto& one = registered("call", "(method of Python, arguments) -> object", Kind::method, &run_method);
  return one;
}

// In the controller.

std::string types_of(const nb::tuple& arguments, const nb::dict& keywords) {
  std::string types;
  for (const nb::handle each : arguments) types.append(types.empty() ? "" : ", ").append(kind_name(each));
  for (const auto& [name, value] : keywords) {
    types.append(types.empty() ? "" : ", ").append(nb::cast<std::string>(name)).append("=").append(kind_name(value));
  }
  return types;
}

/// The workers first … last - 1 that a call goes to.
struct Span {
  int first, last;
};

class Workers {
 public:
  explicit Workers(std::shared_ptr<detail::RemoteWorkers> workers) : workers_(std::move(workers)) { look_at_pickles(); }
  ~Workers() {
    const Unlocked released;
    workers_.reset();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int size() const { return workers_->size(); }
  bool may_pickle() const { return !refusal_; }
  nb::list call(int first, int last, const std::string& name, nb::handle target, const nb::tuple& arguments, const nb::dict& keywords) {
    return begin(function(), {first, last}, 0, name, target, arguments, keywords);
  }
  nb::tuple make(int first, int last, const std::string& name, nb::handle target, const nb::tuple& arguments, const nb::dict& keywords) {
    const std::uint64_t object = workers_->new_object();
    return nb::make_tuple(object, begin(maker(), {first, last}, object, name, target, arguments, keywords));
  }
  nb::list call_method(int first, int last, std::uint64_t object, const std::string& name, nb::handle target, const nb::tuple& arguments,
                       const nb::dict& keywords) {
    return begin(method(), {first, last}, object, name, target, arguments, keywords);
  }
  void release(int worker, std::uint64_t object) {
    unlocked([&] { workers_->release(worker, object); });
  }
  nb::object failure(int worker) {
    const auto error = unlocked([&] { return workers_->failure(worker); });
    return error ? as_python(error) : nb::none();
  }
  int generation(int worker) {
    return unlocked([&] { return workers_->generation(worker); });
  }
  void replace(int worker) {
    const std::source_location where = place_of_program();
    unlocked([&] { workers_->replace(worker, where); });
    look_at_pickles();
  }
  void end(const std::string& reason) {
    unlocked([&] { workers_->end(reason); });
  }

 private:
  void look_at_pickles() {
    refusal_ = unlocked([&] { return detail::why_no_pickles(workers_->everyone()); });
  }
  nb::list begin(const detail::RemoteFunction& function, Span span, std::uint64_t object, const std::string& name, nb::handle target,
                 const nb::tuple& arguments, const nb::dict& keywords);

  std::shared_ptr<detail::RemoteWorkers> workers_;
  std::exception_ptr refusal_;
};

nb::list Workers::begin(const detail::RemoteFunction& function, Span span, std::uint64_t object, const std::string& name, nb::handle target,
                        const nb::tuple& arguments, const nb::dict& keywords) {
  const Form form = may_pickle() ? Form::pickle : Form::data;
  const nb::object request =
      form == Form::pickle ? nb::make_tuple(target, out_of_band(arguments), out_of_band(keywords)) : nb::make_tuple(target, arguments, keywords);
  detail::Frame frame;
  try {
    frame = frame_of(request, form, false, "call");
  } catch (const Raised& why) {
    serving("refuse")(name, target, arguments, keywords, why.exception());
    throw;
  }
  const std::string types = types_of(arguments, keywords);
  const std::source_location where = place_of_program();
  nb::list futures;
  for (int worker = span.first; worker < span.last; ++worker) {
    detail::RemoteRequest one{.function = &function,
                              .arguments = frame,
                              .types = name + (types.empty() ? "" : ", ") + types,
                              .where = where,
                              .object = object,
                              .memory = &memory_of_part};
    CallText text{.function = name + "(" + types + ")", .worker = worker, .where = where, .may_pickle = may_pickle()};
    Future* future = nullptr;
    try {
      future = new Future(unlocked([&] { return workers_->begin(worker, std::move(one)); }), std::move(text));
    } catch (const PeerFailed&) {  // the others are called
      future = new Future(as_python(std::current_exception()), std::move(text));
    }
    futures.append(nb::cast(future, nb::rv_policy::take_ownership));
  }
  return futures;
}

nb::object meet(int workers, const std::string& backend, nb::handle timeout, int most_in_flight) {
  ControllerOptions options;
  options.workers = workers;
  options.backend = backend;
  options.timeout = timeout_or(timeout, options.timeout, "Controller");
  options.most_in_flight = most_in_flight;
  const std::source_location where = place_of_program();
  const detail::RemoteMeeting meeting = unlocked([&] { return detail::meet_workers(options, where); });
  if (!meeting.workers) return nb::int_(meeting.exit_code);
  return nb::cast(new Workers(meeting.workers), nb::rv_policy::take_ownership);
}

}  // namespace

void bind_controller(nb::module_& m) {
  // So that processes compare them when they meet.
  function();
  maker();
  method();
  nb::class_<Workers>(m, "_Workers")
      .def("__len__", &Workers::size)
      .def_prop_ro("may_pickle", &Workers::may_pickle)
      .def("call", &Workers::call)
      .def("make", &Workers::make)
      .def("call_method", &Workers::call_method)
      .def("release", &Workers::release)
      .def("failure", &Workers::failure)
      .def("generation", &Workers::generation)
      .def("replace", &Workers::replace)
      .def("end", &Workers::end);
  m.def("_meet_workers", &meet, "workers"_a, "backend"_a, "timeout"_a.none(), "most_in_flight"_a);
  m.def(
      "_refuse_command",
      [](const std::string& name, const std::string& signature, const std::string& why) {
        if (detail::find_remote(name, signature) != nullptr) return;
        const auto refuse = [why](detail::RemoteRun&, detail::Frame&&) -> detail::Frame { throw Unsupported(why); };
        detail::register_remote({.name = name, .signature = signature, .run = refuse, .is_compared = false});
      },
      "name"_a, "signature"_a, "why"_a);
  m.def("_blamed_worker", [](std::string group, int rank, int culprit, int world_culprit) {
    return detail::blamed_worker({.group = std::move(group), .rank = rank, .culprit = culprit, .world_culprit = world_culprit});
  });
  m.def("worker_number", &detail::worker_number, docs::worker_number);
  m.def(
      "everyone", [] { return detail::everyone(place_of_program()); }, docs::everyone);
}

}  // namespace unisono::python
