#include "help/roff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "common/text.h"

namespace unisono::tools {
namespace {

/// The width of the source, which nobody sees but who edits it.
constexpr std::size_t source_columns = 78;

/// Reads a letter of UTF-8 and moves behind it.
std::uint32_t take_letter(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80) return first;
  std::uint32_t letter = first >= 0xF0 ? first & 0x07U : first >= 0xE0 ? first & 0x0FU : first & 0x1FU;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80)
    letter = letter << 6 | (static_cast<unsigned char>(text[at++]) & 0x3FU);
  return letter;
}

/// Writes a letter so that roff shows it as it is: its own signs are escaped, and what is not ASCII is named by its number.
std::string shown(std::uint32_t letter) {
  switch (letter) {
    case '\\': return "\\e";
    case '\'': return "\\(aq";
    case '`': return "\\(ga";
    case '^': return "\\(ha";
    case '~': return "\\(ti";
    case '"': return "\\(dq";
    default: return letter < 0x80 ? std::string(1, static_cast<char>(letter)) : fmt::format("\\[u{:04X}]", letter);
  }
}

/// A text to be typed: every '-' is one that can be copied.
std::string typed(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t letter = take_letter(text, at);
    result += letter == '-' ? "\\-" : shown(letter);
  }
  return result;
}

/// Prose with `words to be typed`, and with options, which are to be typed without backquotes, too.
std::string prose(std::string_view text) {
  std::string result;
  bool is_typed = false, in_option = false;
  for (std::size_t at = 0; at < text.size();) {
    const char before = at == 0 ? ' ' : text[at - 1];
    const std::uint32_t letter = take_letter(text, at);
    if (letter == '`') {
      is_typed = !is_typed;
      result += is_typed ? "\\fB" : "\\fR";
      continue;
    }
    if (letter == ' ') in_option = false;
    else if (letter == '-' && (before == ' ' || before == '(') && at < text.size() && text[at] != ' ') in_option = true;
    result += letter == '-' && (is_typed || in_option) ? "\\-" : shown(letter);
  }
  return result;
}

/// Sets words of capitals in italics and all that has a small letter in bold; brackets and dots stay as they are.
std::string styled(std::string_view usage) {
  const auto is_of_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("-_<>()/~.").find(c) != std::string_view::npos;
  };
  std::string result;
  for (std::size_t at = 0; at < usage.size();) {
    const auto* const end = std::find_if_not(usage.begin() + at, usage.end(), is_of_word);
    const std::string_view word = usage.substr(at, static_cast<std::size_t>(end - usage.begin()) - at);
    if (word.empty()) {
      result += shown(take_letter(usage, at));
      continue;
    }
    const bool is_value = std::ranges::none_of(word, [](char c) { return std::islower(static_cast<unsigned char>(c)) || c == '-'; });
    const bool is_name = word.find('_') != std::string_view::npos;  // of a variable
    result += fmt::format("\\f{}{}\\fR", is_value && !is_name ? 'I' : 'B', typed(word));
    at += word.size();
  }
  return result;
}

}  // namespace

ManualPage::ManualPage(std::string_view name, int section, std::string_view date, std::string_view version) : name_(name) {
  std::string title(name);
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  line(fmt::format(".TH {} {} {} \"unisono {}\" unisono", title, section, date, version));
  line(".nh\n.ad l");  // what is to be typed must not be broken by a hyphen
}

void ManualPage::purpose(std::string_view text) {
  section("NAME");
  line(fmt::format("{} \\- {}", typed(name_), prose(text)));
}

void ManualPage::section(std::string_view title) {
  line(fmt::format(".SH {}", title));
  begins_section_ = true;
}

void ManualPage::line(std::string_view source) {
  roff_.append(source).append("\n");
  begins_section_ = false;
}

void ManualPage::paragraph(std::string_view text) {
  if (!begins_section_) line(".PP");
  sentences(text);
}

void ManualPage::synopsis(std::string_view usage) {
  section("SYNOPSIS");
  line(styled(usage));
}

void ManualPage::item(std::string_view term, std::string_view text) {
  line(".TP");
  line(styled(term));
  sentences(text);
}

void ManualPage::example(std::string_view lines, std::string_view text) {
  line(".TP");
  line(fmt::format("\\fB{}\\fR", typed(lines)));
  sentences(text);
}

void ManualPage::sentences(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    // roff wants each sentence on a line of its own, so that it knows where one ends.
    std::size_t end = rest.find(". ");
    while (end != std::string_view::npos && end + 2 < rest.size() && !std::isupper(static_cast<unsigned char>(rest[end + 2])))
      end = rest.find(". ", end + 1);
    const std::string_view sentence = rest.substr(0, end == std::string_view::npos ? end : end + 1);
    rest.remove_prefix(std::min(rest.size(), sentence.size() + 1));
    std::string source = wrap(prose(sentence), 0, 0, source_columns);
    for (std::size_t at = 0; at != std::string::npos; at = source.find('\n', at)) {
      at += at > 0 || source.starts_with('\n') ? 1 : 0;
      if (at < source.size() && source[at] == '.') source.insert(at, "\\&");
    }
    line(source);
  }
}

}  // namespace unisono::tools
