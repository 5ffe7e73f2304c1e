#include "failure.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>

#include "imports.h"
#include "places.h"

namespace unisono::python {

namespace {

/// The module _errors of this package: the classes, and how they are made.
nb::handle errors() {
  static nb::handle module;
  return made_once(module, [] { return nb::borrow(imported("unisono._errors")); });
}

std::string last_line(nb::handle exception) {
  try {
    return nb::cast<std::string>(errors().attr("last_line")(exception));
  } catch (nb::python_error&) {
    return "an exception of Python";
  }
}

nb::object optional_text(const std::string& text) { return text.empty() ? nb::none() : nb::object(nb::str(text.c_str(), text.size())); }

nb::dict fields_of(const Error& error) {
  nb::dict fields;
  fields["message"] = nb::str(error.message().c_str(), error.message().size());
  fields["operation"] = optional_text(error.operation());
  fields["group"] = optional_text(error.group());
  fields["sequence"] = error.sequence() == 0 ? nb::none() : nb::object(nb::int_(error.sequence()));
  fields["rank"] = error.rank() < 0 ? nb::none() : nb::object(nb::int_(error.rank()));
  fields["culprit"] = error.culprit() ? nb::object(nb::int_(*error.culprit())) : nb::none();
  fields["world_culprit"] = error.world_culprit() ? nb::object(nb::int_(*error.world_culprit())) : nb::none();
  fields["host"] = optional_text(error.host());
  fields["hint"] = optional_text(error.hint());
  return fields;
}

/// An error that has no place is told of the line that the program is in.
nb::object made(const Error& error, nb::dict fields) {
  const auto known = error.where();
  const nb::object where = as_place(known ? *known : place_of_program());
  fields["where"] = where;
  const std::string text = known || where.is_none() ? error.what() : error.what_at(nb::cast<std::string>(nb::str(where)));
  return errors().attr("make")(class_of(error), nb::str(text.c_str(), text.size()), fields);
}

/// Returns an exception's message without operation and hint; of one that a program has made, all of its text.
std::string message_of(nb::handle exception) {
  const auto message = nb::cast<std::string>(nb::str(exception.attr("message")));
  return message.empty() ? last_line(exception) : message;
}

nb::list list_of(const std::vector<int>& numbers) {
  nb::list list;
  for (const int number : numbers) list.append(number);
  return list;
}

template <class E>
bool is_a(const Error& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}

}  // namespace

const char* class_of(const Error& error) {
  constexpr std::pair<const char*, bool (*)(const Error&)> classes[] = {
      {"InvalidArgument", is_a<InvalidArgument>},
      {"NotInitialized", is_a<NotInitialized>},
      {"AlreadyInitialized", is_a<AlreadyInitialized>},
      {"NotMember", is_a<NotMember>},
      {"Unsupported", is_a<Unsupported>},
      {"BackendUnavailable", is_a<BackendUnavailable>},
      {"Mismatch", is_a<Mismatch>},
      {"Timeout", is_a<Timeout>},
      {"PeerFailed", is_a<PeerFailed>},
      {"ProtocolError", is_a<ProtocolError>},
      {"LaunchFailed", is_a<LaunchFailed>},
      {"RemoteError", is_a<RemoteError>},
      {"Cancelled", is_a<Cancelled>},
  };
  const auto* const known = std::ranges::find_if(classes, [&](const auto& each) { return each.second(error); });
  return known == std::end(classes) ? "Error" : known->first;
}

std::string kind_name(nb::handle object) {
  return nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))).attr("__name__"));
}

void check_ready(nb::handle object, const char* operation) {
  if (nb::inst_ready(object)) return;
  throw_invalid(operation, "this " + kind_name(object) + " has no content, because its __init__ was not called",
                "the __init__ of a subclass calls super().__init__()");
}

void throw_invalid(const char* operation, const std::string& what, const char* hint) {
  throw InvalidArgument(what, {.operation = operation, .hint = hint});
}

Raised::Raised(nb::object exception) : text_(std::make_shared<const std::string>(last_line(exception))), kept_(std::move(exception)) {}

RaisedPeerFailed::RaisedPeerFailed(nb::object raised) : PeerFailed(message_of(raised)), raised_(std::move(raised)) {}

std::exception_ptr as_cpp(nb::handle exception) {
  if (nb::isinstance(exception, errors().attr("PeerFailed"))) return std::make_exception_ptr(RaisedPeerFailed(nb::borrow(exception)));
  return std::make_exception_ptr(Raised(nb::borrow(exception)));
}

nb::object as_python(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Raised& raised) {
    return raised.exception();
  } catch (const RaisedPeerFailed& peer) {
    return peer.raised().exception();
  } catch (const Error& e) {
    nb::dict fields = fields_of(e);
    if (const auto* const late = dynamic_cast<const Timeout*>(&e)) fields["missing"] = list_of(late->missing());
    if (const auto* const peer = dynamic_cast<const PeerFailed*>(&e)) fields["cause"] = nb::cast(to_string(peer->cause()));
    if (const auto* const remote = dynamic_cast<const RemoteError*>(&e)) fields["type"] = nb::str(remote->type().c_str());
    return made(e, fields);
  } catch (const std::bad_alloc&) {
    return nb::borrow(PyExc_MemoryError)();
  } catch (const std::exception& e) {
    return nb::borrow(PyExc_RuntimeError)(e.what());
  } catch (...) {
    return nb::borrow(PyExc_RuntimeError)("an exception of an unknown type");
  }
}

namespace {
bool is_ours(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error&) {
    return true;
  } catch (const Raised&) {
    return true;
  } catch (...) {
    return false;
  }
}
}  // namespace

void register_failures() {
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    if (!is_ours(error)) std::rethrow_exception(error);
    try {
      const nb::object exception = as_python(error);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    } catch (nb::python_error& again) {
      again.restore();
    }
  });
}

}  // namespace unisono::python
