#include "ground/host.h"

#include <unistd.h>

#include <fstream>

namespace unisono::ground {

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

const std::string& machine_id() {
  static const std::string id = [] {
    std::string text;
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    if (!(file >> text)) text = host_name();
    char network[64] = {};  // containers, and namespaces made by hand, share a kernel and do not hear each other on loopback
    if (::readlink("/proc/self/ns/net", network, sizeof network - 1) > 0) text.append("/").append(network);
    return text;
  }();
  return id;
}

}  // namespace unisono::ground
