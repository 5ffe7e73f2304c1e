#include "unisono/c/context.h"

#include <chrono>
#include <string>

#include "base/version.h"
#include "c/arguments.h"
#include "unisono/context.h"

namespace unisono::c {
namespace {

constexpr std::uint32_t number_of(std::uint32_t major, std::uint32_t minor, std::uint32_t patch) { return 1000000 * major + 1000 * minor + patch; }

/// Until 1.0 a minor version may break programs; from then on it only adds.
void check_version(std::uint32_t header) {
  const base::Version library = base::library_version();
  const std::uint32_t major = header / 1000000, minor = header / 1000 % 1000;
  if (major == library.major && (major == 0 ? minor == library.minor : minor <= library.minor)) return;
  throw WrongVersion("this program was compiled with the headers of unisono " + std::to_string(major) + "." + std::to_string(minor) + "." +
                         std::to_string(header % 1000) + ", and the library is " + base::to_string(library),
                     {.operation = "initialize", .hint = "compile it with the headers of the library, and pass UNISONO_HEADER_VERSION"});
}

std::string text_or(const char* text, const std::string& otherwise) { return text == nullptr ? otherwise : text; }
std::optional<int> number_at(const std::int32_t* number) { return number == nullptr ? std::nullopt : std::optional<int>(*number); }

InitOptions init_options_of(const unisono_init_options* options) {
  InitOptions taken;
  if (options == nullptr) return taken;
  const auto given = structure_of(*options, "initialize", "unisono_init_options");
  taken.backend = text_or(given.backend, taken.backend);
  taken.init_method = text_or(given.init_method, taken.init_method);
  taken.group_name = text_or(given.group_name, taken.group_name);
  if (given.timeout_ms != 0) taken.timeout = std::chrono::milliseconds(given.timeout_ms);
  taken.rank = number_at(given.rank);
  taken.world_size = number_at(given.world_size);
  taken.local_rank = number_at(given.local_rank);
  return taken;
}

/// Writes what a function of C++ says of this process.
unisono_status write(std::int32_t* to, std::string_view operation, std::string_view name, int (*question)()) noexcept {
  return guarded([&] {
    std::int32_t& answer = target(to, operation, name);
    answer = question();
  });
}

}  // namespace
}  // namespace unisono::c

using unisono::c::guarded;

unisono_status unisono_initialize(uint32_t header_version, const unisono_init_options* options) {
  return guarded([&] {
    unisono::c::check_version(header_version);
    unisono::initialize(unisono::c::init_options_of(options));
  });
}

unisono_status unisono_finalize() {
  return guarded([] { unisono::finalize(); });
}

int32_t unisono_is_initialized() { return unisono::is_initialized() ? 1 : 0; }

unisono_status unisono_rank(int32_t* rank) { return unisono::c::write(rank, "rank", "rank", unisono::rank); }
unisono_status unisono_world_size(int32_t* size) { return unisono::c::write(size, "world_size", "size", unisono::world_size); }
unisono_status unisono_local_rank(int32_t* rank) { return unisono::c::write(rank, "local_rank", "rank", unisono::local_rank); }
unisono_status unisono_nproc_per_node(int32_t* number) { return unisono::c::write(number, "nproc_per_node", "number", unisono::nproc_per_node); }
unisono_status unisono_nnodes(int32_t* number) { return unisono::c::write(number, "nnodes", "number", unisono::nnodes); }
unisono_status unisono_node_rank(int32_t* rank) { return unisono::c::write(rank, "node_rank", "rank", unisono::node_rank); }

unisono_status unisono_hostname(char* text, size_t capacity, size_t* length) {
  return guarded([&] { unisono::c::write_text(unisono::hostname(), text, capacity, length, "hostname"); });
}

unisono_status unisono_backend(char* text, size_t capacity, size_t* length) {
  return guarded([&] { unisono::c::write_text(unisono::backend().value_or(""), text, capacity, length, "backend"); });
}

unisono_status unisono_is_backend_available(const char* name, int32_t* is_available) {
  return guarded([&] {
    const std::string_view asked = unisono::c::text_of(name, "is_backend_available", "name");
    std::int32_t& answer = unisono::c::target(is_available, "is_backend_available", "is_available");
    answer = unisono::is_backend_available(asked) ? 1 : 0;
  });
}

uint32_t unisono_version() { return unisono::c::number_of(UNISONO_VERSION_MAJOR, UNISONO_VERSION_MINOR, UNISONO_VERSION_PATCH); }

#define UNISONO_TEXT_OF(x) #x
#define UNISONO_VERSION_TEXT(major, minor, patch) UNISONO_TEXT_OF(major) "." UNISONO_TEXT_OF(minor) "." UNISONO_TEXT_OF(patch)
const char* unisono_version_text() { return UNISONO_VERSION_TEXT(UNISONO_VERSION_MAJOR, UNISONO_VERSION_MINOR, UNISONO_VERSION_PATCH); }
#undef UNISONO_VERSION_TEXT
#undef UNISONO_TEXT_OF
