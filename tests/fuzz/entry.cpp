// The entry that libFuzzer and AFL++ call, and replay.cpp.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/environment.h"
#include "input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Nothing depends on the variables of whoever runs it, and what is refused thousands of times a second is not logged.
  using Variables = std::map<std::string, std::string, std::less<>>;
  static const bool is_quiet = (unisono::base::Environment::become(unisono::base::Environment(Variables{{"UNISONO_LOG", "off"}})), true);
  static_cast<void>(is_quiet);
  const std::vector<char> copy(data, data + size);  // its end is the end of its memory, so that a read past it is seen
  unisono::fuzz::check_input({copy.data(), copy.size()});
  return 0;
}
