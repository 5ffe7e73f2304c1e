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

/// What is made of the results, and where saved ones are.
struct BenchReportOptions {
  std::string json = {};
  std::string plot = {};
  std::string ratio_plot = {};
  std::string baseline = {};
  std::vector<std::string> from = {};
  std::optional<double> fail_below = {};
  bool explain = false;
};

/// The command line of `unisono bench`, as it was typed.
struct BenchOptions {
  std::vector<std::string> operations = {};  ///< all_reduce where none is named; or "all"
  int ranks = 0;                             ///< 0: one per core that may be used, at least two; on devices, one per device
  int hosts = 1;
  std::vector<std::string> sizes = {"8", "1KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB", "16MiB", "64MiB"};
  std::string dtype = "f32";
  std::string device = "host";
  std::string buffers = "private";
  std::string data = "static";
  std::string backend = "auto";
  std::vector<std::string> peers = {};
  std::string compare = "on";
  std::string record = "on";
  std::string bind = "core";
  BenchReportOptions report = {};
  std::optional<int> rounds = {};
  std::optional<double> seconds = {};
  bool quick = false;
  bool in_place = false;
  std::uint64_t seed = 1;
  double timeout_seconds = 600;
};

/// Stands for every operation on the command line.
inline constexpr std::string_view all_operations = "all";

/// Moves words that were read as operations to the list that they continue ("--peers openmpi gloo", "--sizes 8 1KiB", "--from a.json b.json"). Throws
/// InvalidArgument, with a suggestion, for a word that fits none.
void sort_words(BenchOptions& options);
/// Returns the names of other libraries for --peers.
std::span<const std::string_view> peer_names();
/// Tells whether a word of --peers is the path of a folder with one.
bool is_path(std::string_view peer);

}  // namespace unisono::tools
