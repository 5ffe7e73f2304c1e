#include "rendezvous/url.h"

#include <charconv>
#include <filesystem>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view why) { throw InvalidArgument(fmt::format("init_method \"{}\": {}", text, why)); }

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Returns the part of the query that is for etcd.
std::string_view parse_query(Url& url, std::string_view query, std::string_view whole) {
  const bool is_etcds = whole.starts_with("etcd");
  std::string_view for_etcd;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos) refuse(whole, is_etcds ? "a query is rank=…, world_size=… or ttl=…" : "a query is rank=… or world_size=…");
    const std::string_view name = pair.substr(0, equals);
    const auto value = whole_number(pair.substr(equals + 1));
    if (is_etcds && name == "ttl") {
      for_etcd = pair;
      continue;
    }
    if (name != "rank" && name != "world_size")
      refuse(whole, fmt::format("there is no \"{}\" in a query, only {}", name, is_etcds ? "rank, world_size and ttl" : "rank and world_size"));
    if (!value) refuse(whole, fmt::format("the {} is no whole number", name));
    (name == "rank" ? url.rank : url.world_size) = value;
  }
  return for_etcd;
}

void parse_host_and_port(Url& url, std::string_view place, std::string_view whole) {
  std::string_view port;
  if (place.starts_with('[')) {
    const auto end = place.find(']');
    if (end == std::string_view::npos || place.substr(end + 1, 1) != ":") refuse(whole, "an IPv6 address is written [address]:port");
    url.host = place.substr(1, end - 1);
    port = place.substr(end + 2);
  } else {
    const auto colon = place.rfind(':');
    if (colon == std::string_view::npos) refuse(whole, "the port is missing");
    url.host = place.substr(0, colon);
    port = place.substr(colon + 1);
    if (url.host.find(':') != std::string::npos) refuse(whole, "an IPv6 address is written [address]:port");
  }
  if (url.host.empty()) refuse(whole, "the host is missing");
  const auto number = whole_number(port);
  if (!number || *number < 1 || *number > std::numeric_limits<std::uint16_t>::max()) refuse(whole, "the port is a number from 1 to 65535");
  url.port = static_cast<std::uint16_t>(*number);
}

}  // namespace

Url parse_url(std::string_view text) {
  Url url;
  const auto colon = text.find("://");
  if (colon == std::string_view::npos) refuse(text, "it has no scheme; env://, tcp://host:port, file:///path and etcd://host:port/prefix are known");
  const std::string_view scheme = text.substr(0, colon);
  std::string_view place = text.substr(colon + 3);
  std::string_view for_etcd;
  if (const auto mark = place.find('?'); mark != std::string_view::npos) {
    for_etcd = parse_query(url, place.substr(mark + 1), text);
    place = place.substr(0, mark);
  }
  if (scheme == "env") {
    if (!place.empty()) refuse(text, "env:// takes nothing behind it");
  } else if (scheme == "tcp") {
    url.scheme = Url::Scheme::tcp;
    parse_host_and_port(url, place, text);
  } else if (scheme == "file") {
    url.scheme = Url::Scheme::file;
    if (place.empty() || place == "/") refuse(text, "it names no file; the whole path is given, with three slashes: file:///path");
    if (!place.starts_with('/')) {
      std::error_code error;
      const std::string whole = std::filesystem::absolute(place, error).lexically_normal().string();
      refuse(text, fmt::format("the file is named by its whole path, with three slashes: file://{}", error ? "/path" : whole));
    }
    url.path = place;
  } else if (scheme == "etcd" || scheme == "etcds") {
    url.scheme = Url::Scheme::etcd;
    url.path = fmt::format("{}://{}{}{}", scheme, place, for_etcd.empty() ? "" : "?", for_etcd);
  } else {
    refuse(text, "unknown scheme; env://, tcp://host:port, file:///path and etcd://host:port/prefix are known");
  }
  return url;
}

}  // namespace unisono::rendezvous
