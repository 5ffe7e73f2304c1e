#pragma once

#include <cstddef>
#include <vector>

/// The part of rank `me` in an exchange among n ranks, in which rank r sends r + 2 s elements to rank s: each of them is 100 r + s.
struct UnevenExchange {
  UnevenExchange(int n, int me) {
    for (int r = 0; r < n; ++r) {
      sends.push_back(static_cast<std::size_t>(me + 2 * r));
      receives.push_back(static_cast<std::size_t>(r + 2 * me));
      gives.insert(gives.end(), sends.back(), 100 * me + r);
      gets.insert(gets.end(), receives.back(), 100 * r + me);
    }
  }
  std::vector<std::size_t> sends, receives;
  std::vector<int> gives, gets;
};
