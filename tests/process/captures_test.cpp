// The looks of `unisono info` and `unisono bench` on a terminal of 80 columns. captures/*.txt hold it, with everything that depends on the machine
// replaced: # for a number, … for words. Where a change is meant, look at the real output at 80 columns, then write the file anew:
//   UPDATE_CAPTURES=1 build/release/tests/captures_test

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "rendezvous/launchers.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

using Lines = std::vector<std::string>;

/// The text that stands on the terminal in the end, without all that was written over.
Lines screen_of(const std::string& out) {
  Lines lines;
  for (std::string line : lines_of(out)) {
    while (line.ends_with('\r')) line.pop_back();
    if (const auto over = line.rfind('\r'); over != std::string::npos) line.erase(0, over + 1);
    line = std::regex_replace(line, std::regex("\x1b\\[[0-9;]*[A-Za-z]"), "");
    lines.push_back(line);
  }
  return lines;
}

/// The lines of a command on a terminal of 80 columns, all of which fit into it.
Lines capture(std::vector<std::string> arguments, std::map<std::string, std::string> environment, int code = 0) {
  for (const std::string_view name : rendezvous::variables_read()) environment.emplace(name, "");  // none of the caller's
  RunningCommand command(unisono_command(std::move(arguments)), {.environment = std::move(environment), .stdio = RunningCommand::Stdio::terminal});
  EXPECT_EQ(command.wait(std::chrono::seconds(200)), code) << command.out();
  Lines lines = screen_of(command.out());
  for (const std::string& line : lines) {
    EXPECT_LE(width_of(line), 80U) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
  return lines;
}

/// Lines that go on after a break, of which there is a different number on every machine, are put behind the one that they belong to.
Lines joined(const Lines& lines, const std::string& indent) {
  Lines whole;
  for (const std::string& line : lines) {
    const bool goes_on = !whole.empty() && line.starts_with(indent) && line.size() > indent.size() && line[indent.size()] != ' ';
    if (goes_on) whole.back() += (whole.back().ends_with('/') ? "" : " ") + line.substr(indent.size());
    else whole.push_back(line);
  }
  return whole;
}

void compare(const std::string& name, const Lines& lines) {
  const std::string path = std::string(UNISONO_CAPTURES) + "/" + name + ".txt";
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  if (std::getenv("UPDATE_CAPTURES") != nullptr) std::ofstream(path) << text;
  EXPECT_EQ(text, contents(path)) << path;
}

/// Words that only this machine, build or moment has: the values of `keys`, and of everything in `sections`.
Lines without_values(const Lines& lines, const std::vector<std::string>& keys, const std::vector<std::string>& sections) {
  Lines result;
  std::string section;
  for (std::string line : lines) {
    if (!line.starts_with(' ')) section = line.substr(0, line.find("  "));
    const bool is_entry = line.starts_with("  ") && std::ranges::find(sections, section) != sections.end();
    if (is_entry || std::ranges::find(keys, section) != keys.end())
      if (line.size() > 28 && line[27] == ' ') line.replace(28, std::string::npos, "…");
    result.push_back(line);
  }
  return result;
}

TEST(Captures, TheCaptureOfInfoIsCurrent) {
  const Lines lines = capture({"info"}, {{"UNISONO_BACKND", "tcp"},
                                         {"UNISONO_LOG", "loud"},
                                         {"UNISONO_BACKEND", "natve"},
                                         {"UNISONO_TOKEN", "swordfish"},
                                         {"UNISONO_PLUGIN_PATH", ""},
                                         {"UNISONO_TIMEOUT", "77"},
                                         {"NO_COLOR", "1"}});
  for (const std::string& line : lines) {
    EXPECT_EQ(line.find("swordfish"), std::string::npos);
  }
  compare("info", without_values(joined(lines, std::string(28, ' ')), {"version", "plug-ins from", "encryption"},
                                 {"backends", "host", "shared memory", "limits"}));
}

/// The figures of a table become # where they end, so that the columns can be seen.
std::string without_figures(const std::string& line) {
  constexpr std::size_t names_end = 19;
  if (line.size() <= names_end) return line;
  // The last column begins where the others end, so its figures may have any length.
  const std::string text = std::regex_replace(line.substr(names_end), std::regex("  [0-9.]+ \\[[^\\]]*\\]"), "  # [#–#]");
  const std::regex aligned("(  +)([0-9.]+)");
  std::string result;
  auto from = text.cbegin();
  for (std::sregex_iterator it(text.cbegin(), text.cend(), aligned), end; it != end; ++it) {
    result.append(from, (*it)[0].first);
    result += (*it)[1].str() + std::string((*it)[2].length() - 1, ' ') + "#";
    from = (*it)[0].second;
  }
  result.append(from, text.cend());
  return line.substr(0, names_end) + std::regex_replace(result, std::regex("[0-9]+(\\.[0-9]+)?"), "#");
}

TEST(Captures, TheCaptureOfTheBenchIsCurrent) {
  const Lines lines = capture({"bench", "all_reduce", "broadcast", "--ranks", "2", "--sizes", "1KiB,16MiB", "--compare", "both", "--quick"},
                              {{"OMP_NUM_THREADS", "1"}});
  const auto table = std::ranges::find(lines, "all_reduce");
  Lines whole = joined({lines.begin(), table}, "  ");
  for (const std::string& line : joined({table, lines.end()}, std::string(9, ' '))) whole.push_back(line);
  Lines plain;
  bool in_table = false;
  for (std::string line : whole) {
    if (plain.empty()) line = "…: …";  // the machine
    line = std::regex_replace(line, std::regex("label [^)]*"), "label …");
    line = std::regex_replace(line, std::regex(", [0-9]+ left out for stolen time"), "");
    line = std::regex_replace(line, std::regex("\\([a-z_]+ of [^)]*\\)"), "(…)");
    if (line.starts_with("summary: ") || line.starts_with("flag barrier")) line = std::regex_replace(line, std::regex("[0-9]+(\\.[0-9]+)?"), "#");
    else if (in_table) line = without_figures(line);
    in_table = line.find("median us") != std::string::npos || (in_table && !line.empty());
    plain.push_back(line);
  }
  compare("bench", plain);
}

}  // namespace
}  // namespace unisono::testing
