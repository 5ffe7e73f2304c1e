#include "transport/tcp/eager.h"

#include <fmt/format.h>

#include "transport/tcp/link.h"
#include "unisono/error.h"

namespace unisono::transport {

std::size_t most_eager_connections(const base::Environment& environment) {
  constexpr const char* name = "UNISONO_MAX_EAGER_CONNECTIONS";
  const auto number = environment.get_int(name);
  if (!number) return Link::Options().most_eager;
  if (*number < 0) throw InvalidArgument(fmt::format("environment variable {} is negative: {}", name, *number));
  return static_cast<std::size_t>(*number);
}

}  // namespace unisono::transport
