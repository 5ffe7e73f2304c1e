#pragma once

#include <cctype>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace unisono::testing {

/// A page of OpenMetrics text, read by the rules of the format's specification, version 1.0: whatever breaks one of them throws std::runtime_error.
class OpenMetrics {
 public:
  using Labels = std::map<std::string, std::string>;
  struct Family {
    std::string type, unit, help;
    std::vector<std::pair<Labels, double>> samples;
  };

  explicit OpenMetrics(std::string_view page) {
    if (!page.ends_with('\n')) fail("the page does not end with a line feed");
    for (; !page.empty(); page.remove_prefix(page.find('\n') + 1)) take(page.substr(0, page.find('\n')));
    if (!has_ended_) fail("there is no # EOF");
    check_states();
  }

  const std::map<std::string, Family>& families() const { return families_; }
  /// The names under which samples are asked for.
  std::set<std::string> sample_names() const {
    std::set<std::string> names;
    for (const auto& [key, value] : samples_) names.insert(key.first);
    return names;
  }
  std::optional<double> value(const std::string& name, const Labels& labels = {}) const {
    const auto found = samples_.find({name, labels});
    return found == samples_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw std::runtime_error("line " + std::to_string(line_) + ": " + why); }
  static bool is_name(std::string_view text, bool with_colons) {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return false;
    for (const char c : text) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && !(with_colons && c == ':')) return false;
    }
    return true;
  }
  static std::string taken_word(std::string_view& text) {
    const auto end = text.find(' ');
    std::string word(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return word;
  }

  void take(std::string_view line) {
    ++line_;
    if (has_ended_) fail("a line behind # EOF");
    if (line.empty()) fail("an empty line");
    if (line == "# EOF") has_ended_ = true;
    else if (line.starts_with('#')) take_metadata(line);
    else take_sample(line);
  }

  void take_metadata(std::string_view line) {
    if (!line.starts_with("# ")) fail("a comment, which the format does not have");
    line.remove_prefix(2);
    const std::string kind = taken_word(line), name = taken_word(line);
    if (!is_name(name, true)) fail("no name of a family: " + name);
    if (name != current_) {
      if (families_.contains(name)) fail("the lines of family " + name + " do not lie together");
      current_ = name;
      families_[name];
    }
    Family& family = families_[name];
    if (!family.samples.empty()) fail("metadata behind samples");
    std::string& place = kind == "TYPE" ? family.type : kind == "UNIT" ? family.unit : kind == "HELP" ? family.help : unknown_;
    if (&place == &unknown_) fail("unknown metadata " + kind);
    if (!place.empty()) fail(kind + " twice");
    place = line;
    static const std::set<std::string> types{"counter", "gauge", "info", "stateset", "unknown", "histogram", "gaugehistogram", "summary"};
    if (kind == "TYPE" && !types.contains(family.type)) fail("unknown type " + family.type);
    if (kind == "UNIT" && !name.ends_with("_" + family.unit)) fail("the name " + name + " does not end with its unit " + family.unit);
    if (kind == "UNIT" && (family.type == "info" || family.type == "stateset")) fail("a unit of a " + family.type);
  }

  Labels taken_labels(std::string_view& text) {
    Labels labels;
    while (!text.starts_with('}')) {
      if (!labels.empty() && !std::exchange(text, text.substr(text.starts_with(',') ? 1 : 0)).starts_with(',')) fail("no comma between labels");
      const auto equals = text.find("=\"");
      if (equals == std::string_view::npos) fail("a label without a value");
      const std::string name(text.substr(0, equals));
      if (!is_name(name, false)) fail("no name of a label: " + name);
      text.remove_prefix(equals + 2);
      std::string value;
      for (; !text.empty() && text[0] != '"'; text.remove_prefix(1)) {
        if (text[0] == '\\') {
          text.remove_prefix(1);
          if (text.empty() || (text[0] != '\\' && text[0] != '"' && text[0] != 'n')) fail("an escape of an unknown kind");
          value += text[0] == 'n' ? '\n' : text[0];
        } else {
          value += text[0];
        }
      }
      if (text.empty()) fail("a value that does not end");
      text.remove_prefix(1);
      if (!is_utf8(value)) fail("a value that is no UTF-8");
      if (!labels.emplace(name, value).second) fail("label " + name + " twice");
    }
    text.remove_prefix(1);
    return labels;
  }

  static bool is_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
      const auto first = static_cast<unsigned char>(text[i++]);
      int more = first < 0x80 ? 0 : first >= 0xC2 && first < 0xE0 ? 1 : first >= 0xE0 && first < 0xF0 ? 2 : first >= 0xF0 && first < 0xF5 ? 3 : -1;
      if (more < 0) return false;
      for (; more > 0; --more, ++i) {
        if (i >= text.size() || (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return false;
      }
    }
    return true;
  }

  void take_sample(std::string_view line) {
    const auto end = line.find_first_of("{ ");
    if (end == std::string_view::npos) fail("a sample without a value");
    const std::string name(line.substr(0, end));
    line.remove_prefix(end);
    Labels labels;
    if (line.starts_with('{')) {
      line.remove_prefix(1);
      labels = taken_labels(line);
    }
    if (!line.starts_with(' ')) fail("no blank before the value");
    line.remove_prefix(1);
    std::size_t used = 0;
    double number = 0;
    try {
      number = std::stod(std::string(line), &used);
    } catch (const std::exception&) {
      fail("no number: " + std::string(line));
    }
    if (used != line.size()) fail("something behind the value: " + std::string(line));
    check_sample(name, labels, number);
    families_[current_].samples.emplace_back(labels, number);
    if (!samples_.emplace(std::pair(name, labels), number).second) fail("a sample twice: " + name);
  }

  void check_sample(const std::string& name, const Labels& labels, double number) const {
    if (current_.empty()) fail("a sample of no family");
    const Family& family = families_.at(current_);
    const std::string suffix = family.type == "counter" ? "_total" : family.type == "info" ? "_info" : "";
    if (name != current_ + suffix) fail("sample " + name + " in the family " + current_ + " of type " + family.type);
    if (family.type == "counter" && (!std::isfinite(number) || number < 0)) fail("a counter that is no count");
    if (family.type == "info" && number != 1) fail("an info that is not 1");
    if (family.type != "stateset") return;
    if (number != 0 && number != 1) fail("a state that is neither 0 nor 1");
    if (!labels.contains(current_)) fail("a state without its label");
  }

  /// Checks that exactly one state of each thing is true, as this program tells them.
  void check_states() const {
    for (const auto& [name, family] : families_) {
      if (family.type != "stateset") continue;
      std::map<Labels, double> sums;
      for (auto [labels, number] : family.samples) {
        labels.erase(name);
        sums[labels] += number;
      }
      for (const auto& [labels, sum] : sums) {
        if (sum != 1) fail("not one state of " + name);
      }
    }
  }

  std::map<std::string, Family> families_;
  std::map<std::pair<std::string, Labels>, double> samples_;
  std::string current_, unknown_;
  std::size_t line_ = 0;
  bool has_ended_ = false;
};

}  // namespace unisono::testing
