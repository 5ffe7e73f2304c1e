#include "context/schemes.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono {
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
