#include "data.h"

#include <charconv>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

/// Removes a number and the comma after it from the line; returns false where there is no number from 0 to `largest`.
bool take_number(std::string_view& line, int largest, int& number) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || number < 0 || number > largest) return false;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (line.starts_with(',')) line.remove_prefix(1);
  return true;
}

}  // namespace

std::vector<Digit> read_digits(const std::filesystem::path& file) {
  std::ifstream input(file);
  if (!input) throw std::runtime_error("cannot read " + file.string());

  std::vector<Digit> digits;
  for (std::string text; std::getline(input, text);) {
    std::string_view line = text;
    Digit digit{};
    bool good = true;
    for (float& pixel : digit.pixels) {
      int value = 0;
      good = good && take_number(line, 16, value);
      pixel = static_cast<float>(value) / 16.0f;
    }
    if (!good || !take_number(line, 9, digit.label) || !line.empty()) {
      throw std::runtime_error(file.string() + ":" + std::to_string(digits.size() + 1) + ": not 64 pixels from 0 to 16 and a digit");
    }
    digits.push_back(digit);
  }
  return digits;
}

std::uint64_t Shuffler::next() {
  // splitmix64 gives the same numbers everywhere, which the shuffle of the standard library does not.
  std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

Share share_of(std::size_t count, int rank, int ranks) {
  const auto r = static_cast<std::size_t>(rank);
  const auto n = static_cast<std::size_t>(ranks);
  return {count * r / n, count * (r + 1) / n};
}
