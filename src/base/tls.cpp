#include "base/tls.h"

#include <fstream>

#include <fmt/format.h>

#include "base/code_file.h"
#include "base/files.h"
#include "base/version.h"
#include "unisono/error.h"

namespace unisono::base {
namespace {

constexpr const char* plugin_file = "libunisono-tls.so";
constexpr std::size_t longest_file = std::size_t{1} << 20;
constexpr const char* how_to_get_it = "a build of unisono with OpenSSL 3 has it (Debian: libssl3, and libssl-dev to build)";

TlsAvailability look() {
#ifdef UNISONO_WITHOUT_TLS
  return {.why_not = "TLS was left out of this build (-DUNISONO_TLS=OFF)"};
#else
  const PlugIn plug_in = find_plug_in(plugin_file, tls_entry);
  TlsAvailability found{.path = plug_in.path, .why_not = plug_in.why_not};
  if (plug_in.entry == nullptr) return found;
  const std::string version = to_string(library_version());
  found.library = reinterpret_cast<TlsEntry>(plug_in.entry)(version.c_str());
  if (found.library == nullptr) found.why_not = fmt::format("{} was not built for unisono {}", plug_in.path, version);
  return found;
#endif
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
    throw InvalidArgument(fmt::format("{} is set and {} is not", given, missing), {.hint = "TLS with certificates needs all three files"});
  }
  return options;
}

const TlsAvailability& tls_availability() {
  static const auto& found = *new TlsAvailability(look());
  return found;
}

std::shared_ptr<const TlsContext> make_tls_context(const TlsOptions& options, const Secret& key) {
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
