#include "engines/ucx/library.h"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "base/code_file.h"
#include "unisono/error.h"

namespace unisono::engines::ucx {
namespace {

constexpr const char* system_name = "libucp.so.0";
constexpr const char* variable = "UNISONO_UCX_LIBRARY";

/// Puts the process's signal handlers and its signal stack back as they were.
class SignalsKept {
 public:
  SignalsKept() {
    for (int number = 1; number < limit; ++number) ::sigaction(number, nullptr, &actions_[static_cast<std::size_t>(number)]);
    ::sigaltstack(nullptr, &stack_);
  }
  ~SignalsKept() {
    if (is_set("UCX_HANDLE_ERRORS")) return;
    for (int number = 1; number < limit; ++number) {
      struct sigaction now {};
      const struct sigaction& before = actions_[static_cast<std::size_t>(number)];
      if (::sigaction(number, nullptr, &now) != 0) continue;
      if (now.sa_sigaction != before.sa_sigaction || now.sa_flags != before.sa_flags) ::sigaction(number, &before, nullptr);
    }
    ::sigaltstack(&stack_, nullptr);
  }
  SignalsKept(const SignalsKept&) = delete;
  SignalsKept& operator=(const SignalsKept&) = delete;

 private:
  static constexpr int limit = NSIG;
  std::array<struct sigaction, limit> actions_{};
  stack_t stack_{};
};

thread_local int quiet = 0;

// The types of ucs/debug/log_def.h, which is not installed everywhere.
enum LogResult { log_stop, log_continue };
using LogHandler = LogResult(const char* file, unsigned line, const char* function, int level, const void* configuration, const char* message,
                             std::va_list arguments);
constexpr int log_error = 1, log_warning = 2;

LogResult show(const char*, unsigned, const char*, int level, const void*, const char* message, std::va_list arguments) {
  if (level < log_error || level > log_warning) return log_continue;
  if (quiet > 0) return log_stop;
  constexpr std::size_t longest = 512;
  char text[longest];
  std::vsnprintf(text, sizeof text, message, arguments);
  const std::string line = fmt::format("[unisono] ucx: {}\n", text);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  return log_stop;
}

/// UCX's log goes to standard output, between the lines of the program.
void redirect_log(void* handle) {
  using Push = void(LogHandler*);
  auto* const push = reinterpret_cast<Push*>(::dlsym(handle, "ucs_log_push_handler"));  // a release without it keeps its log
  if (push != nullptr && !is_set("UCX_LOG_LEVEL") && !is_set("UCX_LOG_FILE")) push(show);
}

[[noreturn]] void refuse(const std::string& why) {
  throw BackendUnavailable(
      "ucx cannot be used here: " + why,
      {.hint = "install UCX 1.13 or newer (on Debian the package libucx0), or set UNISONO_UCX_LIBRARY to the path of libucp.so.0"});
}

struct Known {
  std::mutex mutex;
  std::optional<Library> library;
};
Known& known() {
  static Known& instance = *new Known;  // never destroyed: threads may use it while the process ends
  return instance;
}

std::string chosen_library() {
  std::string path = base::variable_of_code(variable).value_or("");
  if (path.empty()) return path;
  if (!path.starts_with('/')) refuse(fmt::format("{}={} is not an absolute path", variable, path));
  if (const std::string danger = base::why_not_to_run(path); !danger.empty()) refuse(fmt::format("{} is not loaded: {}", path, danger));
  return path;
}

}  // namespace

Library open_library(const std::string& name) {
  const SignalsKept signals;
  // The library is never closed, since it has threads and exit handlers.
  void* const handle = ::dlopen(name.empty() ? system_name : name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const text = ::dlerror();
    refuse(fmt::format("there is no UCX library ({})", text != nullptr ? text : "unknown error"));
  }
  Library found;
  std::string missing;
  // The symbols of libucs and libuct, to which libucp is linked, are found by its handle too.
#define UNISONO_UCX_FIND(name)                                              \
  found.name = reinterpret_cast<decltype(&::name)>(::dlsym(handle, #name)); \
  if (found.name == nullptr && missing.empty()) missing = #name;
  UNISONO_UCX_FUNCTIONS(UNISONO_UCX_FIND)
#undef UNISONO_UCX_FIND
  if (found.ucp_get_version == nullptr || found.ucp_get_version_string == nullptr) {
    refuse(fmt::format("{} is not a UCX library: it has no {}", name.empty() ? system_name : name, missing));
  }
  unsigned major = 0, minor = 0, release = 0;
  found.ucp_get_version(&major, &minor, &release);
  found.version = fmt::format("{}.{}.{}", major, minor, release);
  if (major < oldest_major || (major == oldest_major && minor < oldest_minor)) refuse(fmt::format("UCX {} is too old", found.version));
  if (!missing.empty()) refuse(fmt::format("UCX {} has no {}", found.version, missing));
  static std::once_flag redirected;
  std::call_once(redirected, redirect_log, handle);
  return found;
}

const Library& library() {
  const std::lock_guard lock(known().mutex);
  if (!known().library) known().library = open_library(chosen_library());
  return *known().library;
}

Quiet::Quiet() noexcept { ++quiet; }
Quiet::~Quiet() { --quiet; }

std::string why_not() {
  try {
    static_cast<void>(library());
    return {};
  } catch (const BackendUnavailable& missing) {
    constexpr std::string_view beginning = "ucx cannot be used here: ";
    std::string text = missing.message();
    if (text.starts_with(beginning)) text.erase(0, beginning.size());
    return missing.info().hint.empty() ? text : text + "; " + missing.info().hint;
  }
}

}  // namespace unisono::engines::ucx
