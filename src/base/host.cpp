#include "base/host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace unisono::base {

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
    for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/pid"}) {
      struct stat status {};
      text.append("/").append(::stat(space, &status) == 0 ? std::to_string(status.st_ino) : "?");
    }
    return text;
  }();
  return id;
}

}  // namespace unisono::base
