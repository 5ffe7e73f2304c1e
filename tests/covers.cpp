#include "covers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace coverage {
namespace {

namespace fs = std::filesystem;

// Each way in which a program is run has a record of its own: a row that one run covers is not lost by another run that skips it. COVERAGE_RUN is set
// by CMake where a program has several tests of ctest.
fs::path path_of_record() {
  const char* run = std::getenv("COVERAGE_RUN");
  std::string name = run != nullptr ? run : fs::read_symlink("/proc/self/exe").filename().string();
  const std::string filter = GTEST_FLAG_GET(filter);
  if (filter != "*") name += "." + filter;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.') c = '-';
  }
  return fs::path(COVERAGE_FOLDER) / (name.substr(0, 200) + ".txt");
}

/// Collects what the tests say, and writes it when the program ends. A program that does not come to its end leaves no record.
class Record final : public testing::EmptyTestEventListener {
 public:
  void say(const char* row, Where where) {
    const std::lock_guard lock(mutex_);
    said_[row] = where;
  }

 private:
  void OnTestProgramStart(const testing::UnitTest&) override {
    std::error_code ignored;
    fs::remove(path_of_record(), ignored);
  }
  void OnTestStart(const testing::TestInfo&) override {
    const std::lock_guard lock(mutex_);
    said_.clear();
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    const std::lock_guard lock(mutex_);
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    outcomes_[name] = test.result()->Failed() || outcomes_[name] == "failed" ? "failed" : test.result()->Skipped() ? "skipped" : "passed";
    std::set<std::string>& lines = lines_[name];
    lines.clear();  // of an earlier repetition
    if (test.result()->Failed()) return;
    for (const auto& [row, where] : said_) {
      const char* word = test.result()->Skipped() ? "skipped" : where == Where::gpu ? "gpu" : "passed";
      lines.insert(std::string(word) + " " + row + " " + name);
    }
  }
  void OnTestProgramEnd(const testing::UnitTest&) override {
    std::string rows, tests;
    for (const auto& [test, lines] : lines_) {
      for (const std::string& line : lines) rows += line + "\n";
    }
    for (const auto& [test, word] : outcomes_) tests += word + " " + test + "\n";
    const fs::path path = path_of_record();
    write(path, rows);
    write(path.parent_path() / "tests" / path.filename(), tests);
  }
  static void write(const fs::path& path, const std::string& lines) {
    const fs::path unfinished = path.string() + "." + std::to_string(::getpid());
    fs::create_directories(path.parent_path());
    std::ofstream(unfinished) << "program " << fs::read_symlink("/proc/self/exe").string() << "\n" << lines;
    fs::rename(unfinished, path);  // at once: several ranks may write the same record
  }

  std::mutex mutex_;
  std::map<std::string, Where> said_;                   // by the test that runs
  std::map<std::string, std::set<std::string>> lines_;  // of each test
  std::map<std::string, std::string> outcomes_;         // passed, skipped or failed, for scripts/check/fault-matrix
};

// gtest owns its listeners. This one is there before the first test, in every program that uses the macros.
Record* const record = [] {
  auto* listener = new Record;
  testing::UnitTest::GetInstance()->listeners().Append(listener);
  return listener;
}();

}  // namespace

void covers(std::initializer_list<const char*> rows, Where where) {
  for (const char* row : rows) record->say(row, where);
}

}  // namespace coverage
