#include "base/tls.h"

#include <dlfcn.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/code_file.h"
#include "base/private_file.h"
#include "base/variables.h"
#include "base/version.h"
#include "unisono/error.h"

namespace unisono::base {
namespace {

namespace fs = std::filesystem;

constexpr const char* plugin_file = "libunisono-tls.so";
constexpr std::size_t longest_file = std::size_t{1} << 20;
constexpr const char* how_to_get_it = "a build of unisono with OpenSSL 3 has it (Debian: libssl3, and libssl-dev to build)";

std::vector<fs::path> searched_folders() {
  std::vector<fs::path> folders;
  for (const std::string& folder : folders_of(variable_of_code("UNISONO_PLUGIN_PATH").value_or(""))) {
    if (folder.starts_with('/')) folders.emplace_back(folder);
  }
  for (fs::path& folder : folders_of_plugins()) folders.push_back(std::move(folder));
  return folders;
}

// The plug-in is never closed: OpenSSL has handlers that run when the process ends.
TlsAvailability load(const std::string& path) {
  TlsAvailability found{.path = path};
  if (const std::string danger = why_not_to_run(path); !danger.empty()) {
    found.why_not = fmt::format("{} is not loaded: {}", path, danger);
    return found;
  }
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const error = ::dlerror();
    found.why_not = fmt::format("{} cannot be loaded: {}", path, error != nullptr ? error : "unknown error");
    return found;
  }
  const auto entry = reinterpret_cast<TlsEntry>(::dlsym(handle, std::string(tls_entry).c_str()));
  const std::string version = to_string(library_version());
  found.library = entry == nullptr ? nullptr : entry(version.c_str());
  if (found.library == nullptr) found.why_not = fmt::format("{} was not built for unisono {}", path, version);
  return found;
}

TlsAvailability look() {
  std::string places;
  for (const fs::path& folder : searched_folders()) {
    std::error_code ignored;
    if (fs::exists(folder / plugin_file, ignored)) return load((folder / plugin_file).string());
    places.append(places.empty() ? "" : ", ").append(folder.string());
  }
  return {.why_not = fmt::format("there is no {} in {}", plugin_file, places)};
}

}  // namespace

std::string_view TlsOptions::word() const { return mode == Mode::required ? "required" : mode == Mode::on ? "on" : "off"; }

TlsOptions tls_options(const Environment& environment) {
  TlsOptions options;
  const std::string word = environment.get("UNISONO_TLS").value_or("off");
  if (word == "on") {
    options.mode = TlsOptions::Mode::on;
  } else if (word == "required") {
    options.mode = TlsOptions::Mode::required;
  } else if (word != "off") {
    throw InvalidArgument(fmt::format("UNISONO_TLS={} is unknown; it is on, required or off", word));
  }
  if (!options.wanted()) return options;
  std::string given, missing;
  const auto take = [&](std::string& file, std::string_view variable) {
    file = environment.get(variable).value_or("");
    std::string& list = file.empty() ? missing : given;
    list.append(list.empty() ? "" : ", ").append(variable);
  };
  take(options.certificate, "UNISONO_TLS_CERT");
  take(options.private_key, "UNISONO_TLS_KEY");
  take(options.authority, "UNISONO_TLS_CA");
  if (!given.empty() && !missing.empty()) {
    throw InvalidArgument(fmt::format("{} is set and {} is not", given, missing), {.hint = "TLS with certificates takes all three files"});
  }
  return options;
}

const TlsAvailability& tls_availability() {
  static const auto& found = *new TlsAvailability(look());
  return found;
}

std::shared_ptr<const TlsContext> make_tls_context(const TlsOptions& options, const std::string& key) {
  TlsIdentity identity{.key = key};
  if (options.has_certificate()) {
    identity.certificate = read_public_file("the certificate file", options.certificate, longest_file);
    identity.private_key = read_private_file("the key file", options.private_key, longest_file);
    identity.authority = read_public_file("the file of the authority", options.authority, longest_file);
    identity.certificate_file = options.certificate;
    identity.private_key_file = options.private_key;
    identity.authority_file = options.authority;
  }
  const TlsAvailability& found = tls_availability();
  if (found.library == nullptr) {
    throw BackendUnavailable(fmt::format("UNISONO_TLS={}, and this process cannot encrypt: {}", options.word(), found.why_not),
                             {.hint = how_to_get_it});
  }
  std::string why;
  std::unique_ptr<TlsContext> context = found.library->make_context(identity, why);
  if (!context) throw InvalidArgument(fmt::format("TLS: {}", why));
  return context;
}

bool kernel_has_tls() {
  std::ifstream list("/proc/sys/net/ipv4/tcp_available_ulp");
  for (std::string word; list >> word;) {
    if (word == "tls") return true;
  }
  return false;
}

}  // namespace unisono::base
