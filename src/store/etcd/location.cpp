#include "store/etcd/location.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/files.h"
#include "base/printable.h"
#include "base/socket.h"
#include "unisono/error.h"

namespace unisono::store::etcd {
namespace {

constexpr std::string_view plain = "etcd://", encrypted = "etcds://";
constexpr std::string_view default_port = "2379";
constexpr std::size_t longest_prefix = 255, longest_file = std::size_t{1} << 20;
constexpr int shortest_life = 2, longest_life = 3600;
constexpr int connect_ms_of_several = 2000;  ///< so that a host that is gone does not use up the time of the others
constexpr unsigned char first_printable = 0x21, last_printable = 0x7e;

[[noreturn]] void refuse(std::string_view url, std::string_view why, std::string hint = {}) {
  throw InvalidArgument(fmt::format("the store \"{}\": {}", url, why), {.hint = std::move(hint)});
}

struct HostAndPort {
  std::string host, port{default_port};
};

HostAndPort host_and_port(std::string_view text, std::string_view url) {
  HostAndPort read;
  const bool is_v6 = text.starts_with('[');
  const auto end = is_v6 ? text.find(']') : text.find(':');
  if (is_v6 && end == std::string_view::npos) refuse(url, "an IPv6 address is written [address]:port");
  read.host = text.substr(is_v6 ? 1 : 0, end == std::string_view::npos ? end : end - (is_v6 ? 1 : 0));
  std::string_view rest = end == std::string_view::npos ? std::string_view() : text.substr(end + (is_v6 ? 1 : 0));
  if (!rest.empty()) {
    if (!rest.starts_with(':')) refuse(url, "an endpoint is host:port");
    rest.remove_prefix(1);
    if (base::whole_number<std::uint16_t>(rest).value_or(0) == 0) refuse(url, "a port is a number from 1 to 65535");
    read.port = rest;
  }
  constexpr std::string_view no_host = "/?#@\\%<>\"'`{}|^ \t\r\n";
  if (read.host.empty() || read.host.find_first_of(no_host) != std::string::npos)
    refuse(url, "an endpoint has no host, or one with strange characters");
  return read;
}

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  return base::is_numeric(host) && base::resolve(host, 1).front().is_loopback();
}

void take_secrets(Location& location, bool is_safe, const base::Environment& environment) {
  if (location.user.empty()) return;
  const auto file = environment.get("UNISONO_ETCD_PASSWORD_FILE");
  if (!file) {
    refuse(location.url, fmt::format("etcd's user {} has no password", location.user),
           "set UNISONO_ETCD_PASSWORD_FILE to a file that holds it and that only you can read");
  }
  const base::Secret content = base::read_private_file("the password file", *file, longest_file);
  location.password = content.view().substr(0, content.view().find_last_not_of("\r\n") + 1);
  if (!is_safe) refuse(location.url, "the password would travel in the clear", "etcds:// encrypts the connections");
}

/// Reads "ttl=10", which is all that a query may have.
void take_query(Location& location, std::string_view query) {
  const std::string_view name = query.substr(0, query.find('='));
  if (name != "ttl") refuse(location.url, fmt::format("there is no \"{}\" in its query, only ttl", name));
  const std::string_view text = query.substr(std::min(query.size(), name.size() + 1));
  const int life = base::whole_number<int>(text).value_or(0);
  if (life < shortest_life || life > longest_life)
    refuse(location.url, fmt::format("ttl is \"{}\"; it is a number of seconds from {} to {}", text, shortest_life, longest_life));
  location.time_to_live = std::chrono::seconds(life);
}

}  // namespace

Location location_of(std::string_view url, const base::Environment& environment) {
  Location location{.url = std::string(url), .endpoints = {}, .prefix = {}, .user = {}, .password = {}};
  if (!url.starts_with(plain) && !url.starts_with(encrypted)) refuse(url, "it begins with neither etcd:// nor etcds://");
  const bool tls = url.starts_with(encrypted);
  std::string_view behind = url.substr((tls ? encrypted : plain).size());
  std::optional<std::string_view> query;
  if (const auto mark = behind.find('?', std::min(behind.find('/'), behind.size())); mark != std::string_view::npos) {
    query = behind.substr(mark + 1);
    behind = behind.substr(0, mark);
    location.url = url.substr(0, url.size() - query->size() - 1);
  }
  std::string_view hosts = behind.substr(0, behind.find('/'));
  std::string_view prefix = behind.substr(hosts.size());
  if (const auto at = hosts.rfind('@'); at != std::string_view::npos) {
    location.user = hosts.substr(0, at);
    if (location.user.find(':') != std::string::npos) {
      location.url = fmt::format("{}...@{}{}", tls ? encrypted : plain, hosts.substr(at + 1), prefix);
      refuse(location.url, "a password in it could be read in the list of processes", "UNISONO_ETCD_PASSWORD_FILE names a file with it");
    }
    hosts.remove_prefix(at + 1);
  }
  if (query) take_query(location, *query);
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (prefix.empty()) refuse(url, "it names no job: a prefix of the job's keys, /train-17, say, follows the endpoints");
  for (const char c : prefix) {
    const auto code = static_cast<unsigned char>(c);
    if (code < first_printable || code > last_printable || c == '#')
      refuse(url, "its prefix has a character other than letters, digits and the like");
  }
  if (prefix.size() > longest_prefix) refuse(url, fmt::format("its prefix is longer than {} characters", longest_prefix));
  location.prefix = prefix;
  Endpoint endpoint;
  if (tls) {
    endpoint.authority = environment.get("UNISONO_ETCD_CACERT").value_or("");
    endpoint.certificate = environment.get("UNISONO_ETCD_CERT").value_or("");
    endpoint.private_key = environment.get("UNISONO_ETCD_KEY").value_or("");
    if (endpoint.certificate.empty() != endpoint.private_key.empty())
      refuse(url, "UNISONO_ETCD_CERT and UNISONO_ETCD_KEY are set both or not at all");
    if (!endpoint.private_key.empty()) static_cast<void>(base::read_private_file("the key file", endpoint.private_key, longest_file));
  }
  if (hosts.find(',') != std::string_view::npos) endpoint.connect_ms = connect_ms_of_several;
  bool all_loopback = true;
  for (;;) {
    const HostAndPort each = host_and_port(hosts.substr(0, hosts.find(',')), url);
    all_loopback = all_loopback && is_loopback(each.host);
    const bool is_v6 = each.host.find(':') != std::string::npos;
    endpoint.url = fmt::format("{}://{}{}{}:{}", tls ? "https" : "http", is_v6 ? "[" : "", each.host, is_v6 ? "]" : "", each.port);
    location.endpoints.push_back(endpoint);
    const auto comma = hosts.find(',');
    if (comma == std::string_view::npos) break;
    hosts.remove_prefix(comma + 1);
  }
  take_secrets(location, tls || all_loopback, environment);
  return location;
}

}  // namespace unisono::store::etcd
