#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/processors.h"

namespace unisono {
namespace {

using Folders = std::vector<std::string>;
constexpr const char* version_1 = "3:cpuset:/\n4:cpu,memory:/a/b\n1:name=systemd:/";
constexpr const char* version_2 = "0::/user.slice/job 7\n";

TEST(ControlGroups, FoldersBeginWithTheOwnAndEndWithTheMount) {
  EXPECT_EQ(base::ControlGroups(version_2, "/m").folders("memory"),
            (Folders{"/m/user.slice/job 7", "/m/user.slice", "/m", "/m/unified/user.slice/job 7", "/m/unified/user.slice", "/m/unified"}));
  EXPECT_EQ(base::ControlGroups(version_1, "/m").folders("memory"), (Folders{"/m/memory/a/b", "/m/memory/a", "/m/memory"}));
  EXPECT_EQ(base::ControlGroups(version_1, "/m").folders("cpu"), (Folders{"/m/cpu/a/b", "/m/cpu/a", "/m/cpu"}));
  EXPECT_EQ(base::ControlGroups("0::/", "/m").folders("cpu"), (Folders{"/m", "/m/unified"}));
  for (const char* none : {"", "nonsense", "4:cpu", "0::relative"}) EXPECT_EQ(base::ControlGroups(none, "/m").folders("cpu"), Folders()) << none;
}

/// A folder of control groups with files in it.
class Mount {
 public:
  explicit Mount(const std::map<std::string, std::string>& files) {
    std::string pattern = (std::filesystem::temp_directory_path() / "unisono-groups-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    for (const auto& [name, text] : files) {
      const std::filesystem::path path = folder_ / name;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << text << '\n';
    }
  }
  ~Mount() { std::filesystem::remove_all(folder_); }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  base::ControlGroups of(const char* own) const { return {own, folder_.string()}; }

 private:
  std::filesystem::path folder_;
};

TEST(ControlGroups, LeastLimitOfTheGroupAndThoseAboveItHolds) {
  const Mount unified({{"cpu.max", "max 100000"},
                       {"user.slice/cpu.max", "150000 100000"},
                       {"user.slice/job 7/cpu.max", "400000 100000"},
                       {"user.slice/memory.max", "max"},
                       {"user.slice/job 7/memory.max", "1048576"}});
  EXPECT_EQ(unified.of(version_2).processors(), 1.5);
  EXPECT_EQ(unified.of(version_2).memory(), 1048576U);

  const Mount hierarchies({{"cpu/cpu.cfs_quota_us", "-1"},
                           {"cpu/cpu.cfs_period_us", "100000"},
                           {"cpu/a/cpu.cfs_quota_us", "50000"},
                           {"cpu/a/cpu.cfs_period_us", "100000"},
                           {"memory/memory.limit_in_bytes", "9223372036854771712"},
                           {"memory/a/b/memory.limit_in_bytes", "4096"}});
  EXPECT_EQ(hierarchies.of(version_1).processors(), 0.5);
  EXPECT_EQ(hierarchies.of(version_1).memory(), 4096U);
}

TEST(ControlGroups, LimitIsAbsentWhereNoFileSaysOne) {
  const Mount none({{"cpu.max", "max 100000"}, {"memory.max", "max"}, {"memory/a/memory.limit_in_bytes", "9223372036854771712"}});
  for (const char* own : {version_1, version_2, ""}) {
    EXPECT_EQ(none.of(own).processors(), std::nullopt) << own;
    EXPECT_EQ(none.of(own).memory(), std::nullopt) << own;
  }
}

}  // namespace
}  // namespace unisono
