// The results that `unisono bench --json` has written, as --baseline and --from read them.
#include "bench/rows.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "unit/temporary_file.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

class BenchRows : public testing::Test {
 protected:
  std::vector<BenchRow> read(const nlohmann::json& json) const {
    std::ofstream(file_.path()) << json;
    return read_rows(file_.path());
  }
  const TemporaryFile file_;
  nlohmann::json made_ = to_json({{.set = "own",
                                   .conditions = {.ranks = 2, .dtype = "f32", .buffers = "private", .data = "static"},
                                   .impl = "unisono",
                                   .backend = "shm",
                                   .bytes = 1024,
                                   .time_us = {.middle = 2, .low = 1, .high = 3},
                                   .ratio = bench::Interval{.middle = 5, .low = 4, .high = 6}}});
};

TEST_F(BenchRows, RowsComeBack) {
  EXPECT_EQ(to_json(read(made_)), made_);
  EXPECT_EQ(read(made_).front().ratio->high, 6);
}

TEST_F(BenchRows, RowsWhoseNumbersNoRunHasAreRefused) {
  for (const char* const name : {"ranks", "hosts", "bytes"}) {
    for (const nlohmann::json& wrong :
         {nlohmann::json(1e300), nlohmann::json(-1), nlohmann::json(1.5), nlohmann::json("2"), nlohmann::json(nullptr)}) {
      nlohmann::json changed = made_;
      changed[0][name] = wrong;
      EXPECT_THROW(read(changed), InvalidArgument) << name << " " << wrong;
    }
  }
  nlohmann::json changed = made_;
  changed[0]["ranks"] = std::uint64_t{1} << 32;
  EXPECT_THROW(read(changed), InvalidArgument);
}

}  // namespace
}  // namespace unisono::tools
