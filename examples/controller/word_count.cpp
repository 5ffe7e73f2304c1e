// Counts the words of texts on all workers: each counts a part, and the controller adds up.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "One program counts words on all workers.";

using Counts = std::map<std::string, int>;

Counts count_words(const std::string& text) {
  Counts counts;
  std::istringstream words(text);
  for (std::string word; words >> word;) ++counts[word];
  return counts;
}
UNISONO_REMOTE(count_words);

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  const std::vector<std::string> lines = {"the quick brown fox jumps over the lazy dog", "the dog sleeps", "a quick nap and a slow walk",
                                          "the fox is quick and the dog is not"};
  try {
    const unisono::Controller workers({.workers = 2});  // under a launcher its ranks are the workers, and serve from here on
    std::vector<unisono::Future<Counts>> parts;
    for (std::size_t i = 0; i < lines.size(); ++i) parts.push_back(workers[static_cast<int>(i) % workers.size()].call(count_words, lines[i]));
    Counts all;
    for (const auto& part : parts) {
      for (const auto& [word, count] : part.get()) all[word] += count;
    }
    for (const auto& [word, count] : all) {
      if (count > 1) std::printf("%d %s\n", count, word.c_str());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
