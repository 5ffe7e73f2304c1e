// The table of our environment variables: complete, described, and what it says of mistyped ones.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/environment.h"
#include "base/printable.h"
#include "base/variables.h"

namespace unisono::base {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;
using Sentences = std::vector<std::string>;

const fs::path root = UNISONO_SOURCE_DIR;

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Names found_in(const std::string& text, const std::regex& pattern) {
  Names names;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) names.insert((*it)[1]);
  return names;
}

Names names_of_table() {
  Names names;
  for (const Variable& variable : variables()) names.insert(std::string(variable.name));
  return names;
}

TEST(Variables, TheTableHoldsAllThatTheSourcesReadAndNothingElse) {
  // A variable's name stands in quotes of its own wherever it is read or set, in C++ as in Python. Macros do not.
  const std::regex quoted("[\"'](UNISONO_[A-Z0-9_]+)[\"']");
  std::map<std::string, std::string> where;
  for (const char* folder : {"src", "tools", "include", "python", "examples", "bench"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string ending = entry.path().extension();
      if (ending != ".cpp" && ending != ".h" && ending != ".py") continue;
      if (entry.path().filename() == "variables.cpp") continue;
      if (entry.path().parent_path().filename() == "c") continue;  // the C interface names its codes
      for (const std::string& name : found_in(contents(entry.path()), quoted)) where.emplace(name, entry.path());
    }
  }
  ASSERT_GE(where.size(), 10U);
  for (const auto& [name, path] : where) EXPECT_NE(find_variable(name), nullptr) << name << ", in " << path << ", is not in the table";
  for (const std::string& name : names_of_table()) EXPECT_TRUE(where.contains(name)) << name << " is in the table, and nothing reads it";
}

TEST(Variables, TheTableAndTheDocumentAgree) {
  const Names documented = found_in(contents(root / "docs/guide/environment.md"), std::regex("`(UNISONO_[A-Z0-9_]+)`"));
  EXPECT_EQ(documented, names_of_table());
}

/// The document without its links: " ([gpu.md](gpu.md))" goes, and of others what is read stays.
std::string without_links(const std::string& text) {
  const std::string without = std::regex_replace(text, std::regex(" \\(\\[[^\\]]*\\]\\([^)]*\\)\\)"), "");
  return std::regex_replace(without, std::regex("\\[([^\\]]*)\\]\\([^)]*\\)"), "$1");
}

TEST(Variables, TheDocumentSaysOfEachWhatTheTableSays) {
  const std::string document = without_links(contents(root / "docs/guide/environment.md"));
  Names set_for_ranks;
  for (const RankVariables& row : variables_of_ranks()) {
    std::string names;
    for (const std::string_view name : row.names) {
      if (name.empty()) continue;
      names.append(names.empty() ? "`" : ", `").append(name).append("`");
      set_for_ranks.emplace(name);
    }
    const std::string line = fmt::format("\n| {} | {} |\n", names, row.about);
    EXPECT_NE(document.find(line), std::string::npos) << "docs/guide/environment.md lacks" << line;
  }
  for (const Variable& variable : variables()) {
    if (variable.about.empty()) {
      EXPECT_TRUE(set_for_ranks.contains(std::string(variable.name))) << variable.name << " is described nowhere";
      continue;
    }
    const std::string line = fmt::format("\n| `{}` | {} |\n", variable.name, variable.about);
    EXPECT_NE(document.find(line), std::string::npos) << "docs/guide/environment.md lacks" << line;
  }
}

Sentences odd(std::map<std::string, std::string, std::less<>> variables) { return odd_variables(Environment(std::move(variables))); }

TEST(Variables, AnUnknownNameIsNamedWithTheOneThatIsMeant) {
  EXPECT_EQ(odd({{"UNISONO_BACKND", "tcp"}}), Sentences{"UNISONO_BACKND is unknown; did you mean UNISONO_BACKEND?"});
  EXPECT_EQ(odd({{"UNISONO_TIEMOUT", "5"}}), Sentences{"UNISONO_TIEMOUT is unknown; did you mean UNISONO_TIMEOUT?"});
  EXPECT_EQ(odd({{"UNISONO_WEATHER", "fair"}}), Sentences{"UNISONO_WEATHER is unknown"});
  EXPECT_EQ(odd({{"UNISONO_FOO", "1"}, {"UNISONO_BAR", "2"}}), (Sentences{"UNISONO_BAR is unknown", "UNISONO_FOO is unknown"}));
}

TEST(Variables, AValueThatMeansNothingIsNamedWithThoseThatDo) {
  EXPECT_EQ(odd({{"UNISONO_LOG", "verbose"}}), Sentences{"UNISONO_LOG=verbose is unknown; it is debug, info, warning, error or off"});
  EXPECT_EQ(odd({{"UNISONO_LOG", "debgu"}}), Sentences{"UNISONO_LOG=debgu is unknown; did you mean debug?"});
  EXPECT_EQ(odd({{"UNISONO_MPI", "intel"}}), Sentences{"UNISONO_MPI=intel is unknown; it is openmpi or mpich"});
  for (const char* text : {"soon", "0", "-3", "1.5", "60s"})
    EXPECT_EQ(odd({{"UNISONO_TIMEOUT", text}}), Sentences{"UNISONO_TIMEOUT=" + std::string(text) + " is not a positive whole number of seconds"});
}

TEST(Variables, VariablesInOrderAndOfOthersAreNotNamed) {
  EXPECT_EQ(odd({{"UNISONO_LOG", "off"},
                 {"UNISONO_MPI", "mpich"},
                 {"UNISONO_TIMEOUT", "60"},
                 {"UNISONO_TOKEN", "any text"},
                 {"UNISONO_BACKEND", "of a plug-in"},
                 {"UNISONO_WEATHER", ""},
                 {"UNISON_LOG", "x"},
                 {"PATH", "/bin"}}),
            Sentences{});
}

TEST(Variables, AValueCannotMoveTheCursorNorFillTheScreen) {
  EXPECT_EQ(odd({{"UNISONO_LOG", "a\x1b[2J\nb"}}).front().find_first_of("\x1b\n"), std::string::npos);
  EXPECT_LT(odd({{"UNISONO_LOG", std::string(10'000, 'x')}}).front().size(), 120U);
  EXPECT_LT(odd({{"UNISONO_" + std::string(10'000, 'X'), "1"}}).front().size(), 120U);
}

// Whoever starts a set-user-ID program must not have it write files, read secrets or run commands in its user's place.
TEST(Variables, AProgramWithMoreRightsThanItsCallerIgnoresThoseOfFilesAndSecrets) {
  std::array<std::string, 6> texts = {"UNISONO_RECORD_DIR=/etc",        "UNISONO_TRACE_DIR=/etc", "UNISONO_TOKEN=known",
                                      "UNISONO_TOKEN_FILE=/etc/shadow", "UNISONO_TIMEOUT=7",      "PATH=/bin"};
  std::array<char*, texts.size() + 1> variables{};
  std::ranges::transform(texts, variables.begin(), [](std::string& text) { return text.data(); });
  const Environment privileged(variables.data(), true), plain(variables.data(), false);
  for (const Variable& variable : base::variables()) {
    EXPECT_FALSE(is_for_own_rights(variable) && privileged.has(variable.name)) << variable.name;
  }
  EXPECT_EQ(privileged.all().size(), 2U);
  EXPECT_EQ(privileged.get("UNISONO_TIMEOUT"), "7");
  EXPECT_EQ(privileged.ignored().size(), 4U);
  const Sentences odd = odd_variables(privileged);
  ASSERT_EQ(odd.size(), 4U);
  EXPECT_EQ(odd[0], "UNISONO_RECORD_DIR is ignored in a program that runs with others' rights");
  EXPECT_EQ(plain.all().size() + plain.secrets().size(), texts.size());
  EXPECT_TRUE(plain.ignored().empty());
}

TEST(Likeness, LikenessCountsTheSlipsOfTheHand) {
  EXPECT_EQ(distance("run", "run"), 0U);
  EXPECT_EQ(distance("rnu", "run"), 1U);
  EXPECT_EQ(distance("ru", "run"), 1U);
  EXPECT_EQ(distance("runn", "run"), 1U);
  EXPECT_EQ(distance("rin", "run"), 1U);
  EXPECT_EQ(distance("", "run"), 3U);
  EXPECT_EQ(distance("bnech", "bench"), 1U);
  EXPECT_EQ(distance("hcneb", "bench"), 4U);
}

TEST(Likeness, OnlyTheNearestNameIsMeant) {
  constexpr std::array<std::string_view, 3> names = {"run", "bench", "info"};
  EXPECT_EQ(nearest("rnu", names), "run");
  EXPECT_EQ(nearest("banch", names), "bench");
  EXPECT_EQ(nearest("inf", names), "info");
  EXPECT_EQ(nearest("WRONG", names), "");
  EXPECT_EQ(nearest("x", names), "");
  EXPECT_EQ(nearest("", names), "");
  constexpr std::array<std::string_view, 2> alike = {"--node-rank", "--nnodes"};
  EXPECT_EQ(nearest("--nnode", alike), "--nnodes");
}

}  // namespace
}  // namespace unisono::base
