#include "context/foreign.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engines/plugins.h"
#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono {
namespace {

struct Probes {
  std::mutex mutex;
  std::vector<ContextProbe> all;
  std::atomic<bool> any{false};
};
Probes& probes() {
  static Probes& instance = *new Probes;  // never destroyed: static objects may end after it
  return instance;
}

}  // namespace

void register_context_probe(ContextProbe probe) {
  const std::lock_guard lock(probes().mutex);
  probes().all.push_back(std::move(probe));
  probes().any = true;
}

namespace context {
namespace {

std::optional<InitOptions> ask_probes() {
  if (!probes().any) return std::nullopt;
  std::vector<ContextProbe> all;
  {
    const std::lock_guard lock(probes().mutex);
    all = probes().all;
  }
  for (const auto& probe : all) {
    if (auto options = probe()) return options;
  }
  return std::nullopt;
}

}  // namespace

std::optional<InitOptions> foreign_job() {
  // A probe may itself call unisono; it is not asked again from inside.
  static thread_local bool looking = false;
  if (looking) return std::nullopt;
  struct Looking {
    Looking() { looking = true; }
    ~Looking() { looking = false; }
  } const guard;
  if (auto options = ask_probes()) return options;
  const auto joined = engines::formed_job();
  if (!joined || joined->size == 1) return std::nullopt;
  InitOptions options;
  options.rank = joined->rank;
  options.world_size = joined->size;
  return options;
}

}  // namespace context

namespace context {
namespace {

struct Schemes {
  std::mutex mutex;
  std::map<std::string, RendezvousHandler, std::less<>> handlers;
};

Schemes& schemes() {
  static Schemes& instance = *new Schemes;  // never destroyed
  return instance;
}

std::string_view scheme_of(std::string_view init_method) {
  const auto end = init_method.find("://");
  return end == std::string_view::npos ? std::string_view() : init_method.substr(0, end);
}

RendezvousHandler handler_of(std::string_view init_method) {
  const std::lock_guard lock(schemes().mutex);
  const auto found = schemes().handlers.find(scheme_of(init_method));
  return found == schemes().handlers.end() ? nullptr : found->second;
}

}  // namespace

bool has_handler(std::string_view init_method) { return handler_of(init_method) != nullptr; }

std::optional<InitOptions> through_handler(const InitOptions& options) {
  const RendezvousHandler handler = handler_of(options.init_method);
  if (!handler || options.store) return std::nullopt;
  const Rendezvous found = handler(options);
  if (!found.store) throw InvalidArgument(fmt::format("the handler of \"{}\" gave no store", options.init_method), {.operation = "initialize"});
  const auto agree = [&](const char* what, std::optional<int> asked, int given) {
    if (asked.value_or(given) == given) return;
    throw InvalidArgument(fmt::format("the {} is {} by the argument, but {} by the handler of \"{}\"", what, *asked, given, options.init_method),
                          {.operation = "initialize"});
  };
  agree("rank", options.rank, found.rank);
  agree("world size", options.world_size, found.world_size);
  InitOptions resolved = options;
  resolved.init_method = InitOptions{}.init_method;
  resolved.store = found.store;
  resolved.rank = found.rank;
  resolved.world_size = found.world_size;
  return resolved;
}

}  // namespace context

void register_rendezvous_handler(std::string_view scheme, RendezvousHandler handler) {
  const auto of_schemes = [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '+' || c == '-' || c == '.'; };
  if (scheme.empty() || !std::all_of(scheme.begin(), scheme.end(), of_schemes) || !handler) {
    throw InvalidArgument(fmt::format("a scheme is of lower-case letters, digits, '+', '-' and '.', and has a handler: \"{}\"", scheme));
  }
  auto& all = context::schemes();
  const std::lock_guard lock(all.mutex);
  const bool ours = scheme == "env" || scheme == "tcp" || scheme == "file" || scheme == "etcd" || scheme == "etcds";
  if (ours || !all.handlers.emplace(scheme, std::move(handler)).second) {
    throw InvalidArgument(fmt::format("there is a handler of {}:// already", scheme));
  }
}

}  // namespace unisono
