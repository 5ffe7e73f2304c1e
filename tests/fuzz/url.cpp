// An init_method: it is refused with InvalidArgument, or has the parts that its scheme needs, and says the same when it is written again from these.
#include "rendezvous/plan.h"

#include <fmt/format.h>

#include "input.h"
#include "unisono/error.h"

namespace unisono::fuzz {

using rendezvous::Url;

void check_input(std::string_view bytes) {
  Url url;
  if (refuses<InvalidArgument>([&] { url = rendezvous::parse_url(bytes); })) return;
  std::string text;
  switch (url.scheme) {
    case Url::Scheme::env: text = "env://"; break;
    case Url::Scheme::tcp:
      require(!url.host.empty() && url.port != 0, "tcp:// has host and port");
      text = fmt::format("tcp://[{}]:{}", url.host, url.port);
      break;
    case Url::Scheme::file:
      require(url.path.starts_with('/'), "file:// has a whole path");
      text = "file://" + url.path;
      break;
    case Url::Scheme::etcd:
      require(url.path.starts_with("etcd"), "etcd:// has the whole URL");
      text = url.path;
      break;
  }
  if (url.host.find(']') != std::string::npos) return;  // it cannot be written so
  char separator = url.path.find('?') == std::string::npos ? '?' : '&';
  for (const auto& [name, value] : {std::pair("rank", url.rank), std::pair("world_size", url.world_size)}) {
    if (value) text += fmt::format("{}{}={}", std::exchange(separator, '&'), name, *value);
  }
  const Url again = rendezvous::parse_url(text);
  require(again.scheme == url.scheme && again.host == url.host && again.port == url.port && again.path == url.path, "an URL comes back");
  require(again.rank == url.rank && again.world_size == url.world_size, "its query comes back");
}

}  // namespace unisono::fuzz
