#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace unisono::rendezvous {

/// The parts of an init_method: env://, tcp://host:port, tcp://[v6]:port, file:///path, etcd://host:port,host:port/prefix, each
/// with ?rank=…&world_size=… behind, etcd:// with ttl=… as well.
struct Url {
  enum class Scheme { env, tcp, file, etcd };
  Scheme scheme = Scheme::env;
  std::string host;        ///< tcp
  std::uint16_t port = 0;  ///< tcp
  std::string path;        ///< file; etcd: the whole URL, which store/etcd/location.h reads
  std::optional<int> rank, world_size;
};

/// Throws InvalidArgument, with the text, for any other form.
Url parse_url(std::string_view text);

}  // namespace unisono::rendezvous
