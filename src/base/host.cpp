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

std::string_view kernel_of(std::string_view machine) { return machine.substr(0, machine.find('/')); }

std::string_view network_of(std::string_view machine) { return machine.substr(0, machine.rfind('/')); }

std::uint64_t namespace_number(const std::string& kind) {
  struct stat status {};
  return ::stat(("/proc/self/ns/" + kind).c_str(), &status) == 0 ? status.st_ino : 0;
}

const std::string& machine_id() {
  static const std::string& id = *new const std::string([] {
    std::string text;
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    if (!(file >> text)) text = host_name();
    for (const char* kind : {"net", "pid"}) {
      const std::uint64_t number = namespace_number(kind);
      text.append("/").append(number == 0 ? "?" : std::to_string(number));
    }
    return text;
  }());
  return id;
}

}  // namespace unisono::base
