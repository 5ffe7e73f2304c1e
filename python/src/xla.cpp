// The parts that unisono.jax asks for: the handler of its custom calls for XLA, as a capsule, and the groups and errors that are known there by
// number and text.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "arguments.h"
#include "failure.h"
#include "imports.h"
#include "module.h"
#include "signals.h"
#include "unisono/error.h"
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

struct Named {
  std::string name;
  Code code;
};

Named named(const std::exception_ptr& error) {
  constexpr std::pair<std::string_view, Code> codes[] = {
      {"InvalidArgument", Code::invalid_argument}, {"NotInitialized", Code::failed_precondition},
      {"NotMember", Code::failed_precondition},    {"Unsupported", Code::unimplemented},
      {"BackendUnavailable", Code::unavailable},   {"Mismatch", Code::failed_precondition},
      {"Timeout", Code::deadline_exceeded},        {"PeerFailed", Code::unavailable},
      {"ProtocolError", Code::data_loss},
  };
  try {
    std::rethrow_exception(error);
  } catch (const unisono::Error& e) {
    const std::string name = class_of(e);
    const auto* const known = std::ranges::find(codes, name, [](const auto& each) { return each.first; });
    return {"unisono." + name, known == std::end(codes) ? Code::internal : known->second};
  } catch (const Interrupted&) {
    return {"KeyboardInterrupt", Code::cancelled};
  } catch (...) {
    return {"RuntimeError", Code::internal};
  }
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

/// The last errors, with the texts that XLA has of them.
class Kept {
 public:
  void add(std::string text, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    errors_.emplace_front(std::move(text), std::move(error));
    if (errors_.size() > longest) errors_.pop_back();
  }
  std::exception_ptr in(std::string_view text) {
    const std::lock_guard lock(mutex_);
    for (const auto& [own, error] : errors_) {
      if (text.find(own) != std::string_view::npos) return error;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t longest = 16;
  std::mutex mutex_;
  std::deque<std::pair<std::string, std::exception_ptr>> errors_;
};
Kept& kept() {
  static auto& instance = *new Kept;
  return instance;
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

Error* error_for(const Api& api, const std::exception_ptr& error) {
  const Named known = named(error);
  const std::string text = known.name + ": " + text_of(error);
  kept().add(text, error);
  ErrorArguments arguments{sizeof(ErrorArguments), nullptr, text.c_str(), known.code};
  return api.create_error(&arguments);
}

std::exception_ptr kept_error(std::string_view text) { return kept().in(text); }

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
