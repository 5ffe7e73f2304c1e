#include "rendezvous/host_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

constexpr std::size_t most_hosts = 1'000'000;
constexpr std::size_t most_digits = 18;  ///< of a number that fits 64 bits

struct Number {
  std::uint64_t value = 0;
  std::size_t width = 0;  ///< of the text of its range's start
  auto operator<=>(const Number&) const = default;
};

class Parser {
 public:
  Parser(std::string_view text, HostOrder order) : text_(text), order_(order) {
    std::ranges::copy_if(text, std::back_inserter(compact_), [](char c) { return c != ' ' && c != '\t' && c != '\n'; });
    rest_ = compact_;
  }

  std::vector<std::string> parse() {
    std::vector<std::string> hosts;
    while (!rest_.empty()) {
      const bool nothing = rest_ == "[]" || rest_.starts_with("[],");
      const auto names = item();
      if (names.empty() && !nothing) refuse("a name is empty");
      if (names.size() > most_hosts - hosts.size()) refuse("it has more than a million names");
      hosts.insert(hosts.end(), names.begin(), names.end());
      if (rest_.empty()) break;
      rest_.remove_prefix(1);  // the comma
      if (rest_.empty()) refuse("it ends with a comma");
    }
    return hosts;
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const { throw InvalidArgument(fmt::format("the host list \"{}\" is invalid: {}", text_, why)); }

  /// Reads an item: the text up to the next comma outside brackets.
  std::vector<std::string> item() {
    if (rest_.starts_with("[]") && (rest_.size() == 2 || rest_[2] == ',')) {
      rest_.remove_prefix(2);
      return {};
    }
    std::vector<std::string> names{""};
    while (!rest_.empty() && rest_.front() != ',') {
      if (rest_.front() == ']') refuse("a bracket is closed that was not opened");
      if (rest_.front() != '[') {
        const std::string_view plain = rest_.substr(0, rest_.find_first_of("[],"));
        check_length(names.front().size() + plain.size());
        for (std::string& name : names) name += plain;
        rest_.remove_prefix(plain.size());
        continue;
      }
      const auto end = rest_.find(']');
      if (end == std::string_view::npos) refuse("a bracket is not closed");
      names = multiply(names, bracket(rest_.substr(1, end - 1)));
      rest_.remove_prefix(end + 1);
    }
    if (names.front().empty()) return {};
    for (const std::string& name : names) check_length(name.size());  // the numbers of a bracket may have more digits than its first one
    return names;
  }

  std::vector<std::string> multiply(const std::vector<std::string>& names, const std::vector<Number>& numbers) const {
    if (numbers.size() > most_hosts / names.size()) refuse("it has more than a million names");
    check_length(names.front().size() + numbers.front().width);
    std::vector<std::string> product;
    product.reserve(names.size() * numbers.size());
    for (const std::string& name : names) {
      for (const Number& number : numbers) product.push_back(fmt::format("{}{:0{}}", name, number.value, number.width));
    }
    return product;
  }

  // A million names of any length would take all memory.
  void check_length(std::size_t bytes) const {
    if (bytes > longest_host_name) refuse(fmt::format("a name has more than {} bytes", longest_host_name));
  }

  std::vector<Number> bracket(std::string_view inside) const {
    std::vector<Number> numbers;
    for (;;) {
      const auto comma = inside.find(',');
      add_range(numbers, inside.substr(0, comma));
      if (comma == std::string_view::npos) break;
      inside.remove_prefix(comma + 1);
    }
    if (order_ == HostOrder::sorted) {
      std::ranges::sort(numbers);
      const auto again = std::ranges::unique(numbers);
      numbers.erase(again.begin(), again.end());
    }
    return numbers;
  }

  void add_range(std::vector<Number>& numbers, std::string_view range) const {
    const auto dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const std::uint64_t from = number(first);
    const std::uint64_t to = dash == std::string_view::npos ? from : number(range.substr(dash + 1));
    if (to < from) refuse(fmt::format("the range {} goes down", range));
    if (to - from >= most_hosts - numbers.size()) refuse("it has more than a million names");
    for (std::uint64_t value = from; value <= to; ++value) numbers.push_back({value, first.size()});
  }

  std::uint64_t number(std::string_view digits) const {
    std::uint64_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.size() > most_digits || error != std::errc() || stop != digits.data() + digits.size())
      refuse(fmt::format("\"{}\" is no number; within brackets stand numbers and ranges of them", digits));
    return value;
  }

  const std::string_view text_;
  const HostOrder order_;
  std::string compact_;
  std::string_view rest_;
};

}  // namespace

std::vector<std::string> parse_host_list(std::string_view text, HostOrder order) { return Parser(text, order).parse(); }

}  // namespace unisono::rendezvous
