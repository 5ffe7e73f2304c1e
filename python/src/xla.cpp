// The parts that unisono.jax asks for: the handler of its custom calls for XLA, as a capsule, and the groups and errors that are known there by
// number and text.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "arguments.h"
#include "failure.h"
#include "imports.h"
#include "module.h"
#include "signals.h"
#include "xla_call.h"

namespace unisono::python {

namespace xla {
namespace {

/// XLA asks which version a handler was built for when it is registered, and some versions of it take no other than their own. What is used here is
/// the same in all versions 0.x: the answer is XLA's own version where it says which that is, else the one of those that do not say it.
void answer(const CallFrame& frame, Metadata& metadata) {
  constexpr int major = 0, oldest = 1;
  const bool is_known = frame.api != nullptr && frame.api->version.major == major;
  metadata.version = {sizeof(Version), nullptr, major, is_known ? frame.api->version.minor : oldest};
  if (metadata.struct_size >= offsetof(Metadata, traits) + sizeof(metadata.traits)) metadata.traits = 0;
}

bool is_interruption(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Interrupted&) {
    return true;
  } catch (...) {
    return false;
  }
}

nb::object error_of(const std::string& text) {
  const std::exception_ptr found = kept_error(text);
  if (!found) return nb::none();
  return is_interruption(found) ? nb::borrow(PyExc_KeyboardInterrupt)() : as_python(found);
}

}  // namespace

Error* handle(CallFrame* frame) noexcept {
  for (Extension* each = frame->extensions; each != nullptr; each = each->next) {
    if (each->type != metadata_extension) continue;
    answer(*frame, *reinterpret_cast<MetadataExtension*>(each)->metadata);
    return nullptr;
  }
  try {
    carry_out(Call(*frame));
    return nullptr;
  } catch (...) {
    return error_for(*frame->api, std::current_exception());
  }
}

}  // namespace xla

void bind_xla(nb::module_& m) {
  m.def("_xla_handler", [] { return nb::capsule(reinterpret_cast<void*>(&xla::handle)); });
  m.def("_xla_group", [](const ProcessGroup& group) { return xla::number_of(group); });
  m.def("_xla_error", &xla::error_of);
  m.def("_is_rank_thread", &is_rank_thread);
  m.def("_end_waits_on_interrupt", &end_waits_on_interrupt);
}

}  // namespace unisono::python
