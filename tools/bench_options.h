#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::tools {

/// The command line of `unisono bench`, as it was typed.
struct BenchOptions {
  std::vector<std::string> operations = {"all_reduce"};
  int ranks = 0;  ///< 0: one per core that may be used, at least two
  int hosts = 1;
  std::vector<std::string> sizes = {"8", "1KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB", "16MiB", "64MiB"};
  std::string dtype = "f32";
  std::string buffers = "private";
  std::string data = "static";
  std::string backend = "auto";
  std::vector<std::string> peers = {};
  std::string compare = "on";
  std::string bind = "core";
  std::string json = {};
  std::optional<int> rounds = {};
  std::optional<double> seconds = {};
  bool quick = false;
  bool in_place = false;
  std::uint64_t seed = 1;
  double timeout_seconds = 600;
};

/// Words that stand where operations do, but behind a list that was written with spaces ("--peers openmpi gloo", "--sizes 8 1KiB"), go where they
/// belong. InvalidArgument, with what may have been meant, for one that is neither.
void sort_words(BenchOptions& options);
/// Of other libraries, as --peers has them.
std::span<const std::string_view> peer_names();

/// "8", "8B", "1KiB", "1K", "64MiB", "1G": bytes. InvalidArgument for anything else, and for none at all.
std::size_t parse_bytes(const std::string& text);
/// "8 B", "64 KiB".
std::string format_bytes(std::size_t bytes);

}  // namespace unisono::tools
