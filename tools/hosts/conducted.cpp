#include "hosts/conducted.h"

#include "base/socket.h"

namespace unisono::tools {

Conducted& conducted() {
  static Conducted instance;
  return instance;
}

std::size_t conductor_words(const std::vector<std::string>& words) {
  constexpr std::size_t in_front = 4;  // __launch REPORT SECRET NAME
  return words.size() > in_front && words[0] == "__launch" ? in_front : 0;
}

void take_conductor_off(std::vector<std::string>& words) {
  const std::size_t in_front = conductor_words(words);
  if (in_front == 0) return;
  auto& [report, log_name] = conducted();
  report = std::stoi(words[1]);
  log_name = words[3];
  for (const int fd : {report, std::stoi(words[2])})
    if (fd >= 0) base::set_close_on_exec(fd);
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(in_front));
}

}  // namespace unisono::tools
