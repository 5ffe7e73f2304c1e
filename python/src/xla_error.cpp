// The library's exceptions on their way through XLA, which knows a code and a text.

#include <deque>
#include <mutex>

#include "signals.h"
#include "unisono/error.h"
#include "xla_call.h"

namespace unisono::python::xla {
namespace {

struct Named {
  const char* name;
  Code code;
};

Named named(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument&) {
    return {"unisono.InvalidArgument", Code::invalid_argument};
  } catch (const NotInitialized&) {
    return {"unisono.NotInitialized", Code::failed_precondition};
  } catch (const NotMember&) {
    return {"unisono.NotMember", Code::failed_precondition};
  } catch (const Unsupported&) {
    return {"unisono.Unsupported", Code::unimplemented};
  } catch (const BackendUnavailable&) {
    return {"unisono.BackendUnavailable", Code::unavailable};
  } catch (const Mismatch&) {
    return {"unisono.Mismatch", Code::failed_precondition};
  } catch (const Timeout&) {
    return {"unisono.Timeout", Code::deadline_exceeded};
  } catch (const PeerFailed&) {
    return {"unisono.PeerFailed", Code::unavailable};
  } catch (const ProtocolError&) {
    return {"unisono.ProtocolError", Code::data_loss};
  } catch (const unisono::Error&) {
    return {"unisono.Error", Code::internal};
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

}  // namespace

Error* error_for(const Api& api, const std::exception_ptr& error) {
  const Named known = named(error);
  const std::string text = std::string(known.name) + ": " + text_of(error);
  kept().add(text, error);
  ErrorArguments arguments{sizeof(ErrorArguments), nullptr, text.c_str(), known.code};
  return api.create_error(&arguments);
}

std::exception_ptr kept_error(std::string_view text) { return kept().in(text); }

}  // namespace unisono::python::xla
