#include "store/token.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

constexpr std::size_t shortest_secret = 16;
constexpr std::size_t longest_token_file = 4096;
constexpr std::string_view where_from =
    "set UNISONO_TOKEN to the same random text on every rank, or UNISONO_TOKEN_FILE to a file that holds it and that only you can read; "
    "UNISONO_TOKEN=none goes without";
constexpr std::string_view how_to_make_one = "`openssl rand -hex 32` makes one";

}  // namespace

base::Secret token_for(std::span<const base::SocketAddress> addresses, const std::optional<base::Secret>& argument,
                       const base::Environment& environment) {
  const auto remote = std::ranges::find_if(addresses, [](const auto& address) { return !address.is_loopback(); });
  const bool local = remote == addresses.end();
  base::Secret said = argument ? *argument : said_token(environment).value_or(base::Secret());
  if (said == "none") {
    if (!local)
      base::warn(fmt::format("the store at {} asks for no token: whoever reaches this address can join or disturb the job", describe(*remote)));
    return {};
  }
  if (said.empty() && !local) {
    throw InvalidArgument(
        fmt::format("the store's address {} is not a loopback address, so its connections need the job's secret", describe(*remote)),
        {.hint = std::string(where_from)});
  }
  // A rank sends its first proof to whatever process listens at the address, which could then guess a short secret at leisure.
  if (!local && said.size() < shortest_secret) {
    throw InvalidArgument(fmt::format("the job's secret has {} bytes; for {}, which is not a loopback address, it takes {} at least", said.size(),
                                      describe(*remote), shortest_secret),
                          {.hint = std::string(how_to_make_one)});
  }
  return said;
}

void check_token_between(std::string_view hosts, const std::optional<base::Secret>& token) {
  if (token && *token == "none") return;
  if (!token || token->empty()) {
    throw InvalidArgument(fmt::format("the ranks are on several hosts ({}), so their connections need the job's secret", hosts),
                          {.hint = std::string(where_from)});
  }
  // Whoever can write to the store where the ranks meet can give his own address as a rank's, and is sent a proof by which he could guess a short
  // secret at leisure.
  if (token->size() < shortest_secret) {
    throw InvalidArgument(
        fmt::format("the job's secret has {} bytes; between ranks of several hosts ({}) it takes {} at least", token->size(), hosts, shortest_secret),
        {.hint = std::string(how_to_make_one)});
  }
}

std::optional<base::Secret> said_token(const base::Environment& environment) {
  if (auto token = environment.secret("UNISONO_TOKEN")) return token;
  if (const auto file = environment.get("UNISONO_TOKEN_FILE")) return token_of_file(*file);
  return std::nullopt;
}

base::Secret token_of_file(const std::string& path) {
  const base::Secret content = base::read_private_file("the token file", path, longest_token_file);
  const std::string_view text = content.view();
  constexpr std::string_view white = " \t\r\n";
  const auto first = text.find_first_not_of(white);
  if (first == std::string::npos) throw InvalidArgument(fmt::format("the token file {} is empty", path));
  return text.substr(first, text.find_last_not_of(white) - first + 1);
}

void check_key_of_tls(const base::Secret& token, const base::Environment& environment) {
  const base::TlsOptions options = base::tls_options(environment);
  if (!options.wanted() || !token.empty() || options.has_certificate()) return;
  throw InvalidArgument(fmt::format("UNISONO_TLS={} takes the job's secret, by which the processes know each other, or certificates", options.word()),
                        {.hint = "set UNISONO_TOKEN or UNISONO_TOKEN_FILE on every rank, or UNISONO_TLS_CERT, UNISONO_TLS_KEY and UNISONO_TLS_CA"});
}

std::shared_ptr<const base::TlsContext> tls_for(const base::Secret& token, const base::Environment& environment) {
  check_key_of_tls(token, environment);
  const base::TlsOptions options = base::tls_options(environment);
  if (!options.wanted()) return nullptr;
  return base::make_tls_context(options, token.empty() ? base::Secret() : derived_key(token.view(), "unisono store: TLS 1.3 pre-shared key"));
}

}  // namespace unisono::store
