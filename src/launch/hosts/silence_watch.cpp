#include "launch/hosts/silence_watch.h"

#include <algorithm>

namespace unisono::launcher {

void SilenceWatch::look(base::Clock::time_point now) {
  gap_ = looked_ == base::Clock::time_point() ? std::chrono::nanoseconds(0) : std::min<std::chrono::nanoseconds>(now - looked_, longest_gap_);
  looked_ = now;
}

bool SilenceWatch::is_silent(int host, std::string_view said) {
  const auto [entry, is_new] = heard_.try_emplace(host, Heard{.said = std::string(said)});
  Heard& heard = entry->second;
  if (is_new || heard.said != said) {
    heard = {.said = std::string(said)};
    return false;
  }
  heard.silent += gap_;
  return heard.silent > silence_;
}

}  // namespace unisono::launcher
