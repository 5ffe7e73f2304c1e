// Slurm's lists of hosts.
#include "rendezvous/slurm.h"

#include <gtest/gtest.h>

#include "covers.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using Names = std::vector<std::string>;

Names numbered(const std::string& before, const std::vector<std::string>& numbers, const std::string& behind = "") {
  Names names;
  for (const auto& number : numbers) names.push_back(before + number + behind);
  return names;
}

struct Vector {
  std::string row, text;
  Names expected;
};

class HostList : public testing::TestWithParam<Vector> {};

TEST_P(HostList, AListOfHostsIsTakenApart) {
  COVERS(GetParam().row.c_str(), "W-11", "K-73");
  EXPECT_EQ(parse_host_list(GetParam().text), GetParam().expected);
}

const std::vector<std::string> eight_ascending = {"4", "5", "6", "7", "8", "12", "16", "17", "18", "19", "20", "22", "24", "25", "26"};

INSTANTIATE_TEST_SUITE_P(
    Rows, HostList,
    testing::Values(
        Vector{"H-01", "localhost", {"localhost"}}, Vector{"H-02", "compute!:b24_[1-2].r", {"compute!:b24_1.r", "compute!:b24_2.r"}},
        Vector{"H-03", "quartz[4-8]", numbered("quartz", {"4", "5", "6", "7", "8"})}, Vector{"H-04", "c1001a-[11,17]", {"c1001a-11", "c1001a-17"}},
        Vector{"H-04", "c1001a-s[11,17]", {"c1001a-s11", "c1001a-s17"}}, Vector{"H-05", "c1009a-s17,c1010a-s11", {"c1009a-s17", "c1010a-s11"}},
        Vector{"H-06", "gpu-compute-on-demand-dy-g4dnxlarge-[1-4]", numbered("gpu-compute-on-demand-dy-g4dnxlarge-", {"1", "2", "3", "4"})},
        Vector{"H-07", "node[18-19,1-16,21-22]",
               numbered("node", {"18", "19", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "21", "22"})},
        Vector{"H-08", "node[4-8,12,16-20,22,24-26]", numbered("node", eight_ascending)},
        Vector{"H-09", "machine2-[02-4]vm1", numbered("machine2-", {"02", "03", "04"}, "vm1")},
        Vector{"H-10",
               "machine2-[02-3]vm1, machine4-[0003-5].vml2",
               {"machine2-02vm1", "machine2-03vm1", "machine4-0003.vml2", "machine4-0004.vml2", "machine4-0005.vml2"}},
        Vector{"H-11", "machine2-[009-11]vm1", numbered("machine2-", {"009", "010", "011"}, "vm1")},
        Vector{"H-12", "node[1,2,3]", numbered("node", {"1", "2", "3"})},
        Vector{"H-13",
               "compute-b24-[1-3,5-9], compute-b25-[1,4,8],compute-b25-[2-9,13]",
               {"compute-b24-1", "compute-b24-2", "compute-b24-3", "compute-b24-5", "compute-b24-6", "compute-b24-7", "compute-b24-8",
                "compute-b24-9", "compute-b25-1", "compute-b25-4", "compute-b25-8", "compute-b25-2", "compute-b25-3", "compute-b25-4",
                "compute-b25-5", "compute-b25-6", "compute-b25-7", "compute-b25-8", "compute-b25-9", "compute-b25-13"}},
        Vector{"H-15", "[]", {}}, Vector{"H-15", "", {}}, Vector{"H-15", "  ", {}}, Vector{"H-16", "n[0]", {"n0"}},
        Vector{"H-16", "n[099-101]", {"n099", "n100", "n101"}}, Vector{"H-16", "n[1,002]", {"n1", "n002"}},
        Vector{"H-16", "x[001-003,5]", {"x001", "x002", "x003", "x5"}}, Vector{"H-16", "a[1-2]b[3-4]", {"a1b3", "a1b4", "a2b3", "a2b4"}},
        Vector{"H-16", "a[1-2]b[3-4]c,d", {"a1b3c", "a1b4c", "a2b3c", "a2b4c", "d"}},
        Vector{"K-47", "n[8-12]", numbered("n", {"8", "9", "10", "11", "12"})}, Vector{"K-47", "[1-2],a", {"1", "2", "a"}}));

struct Refused {
  std::string row, text;
};
class NoHostList : public testing::TestWithParam<Refused> {};

TEST_P(NoHostList, ATextThatIsNoListIsRefusedWithItsText) {
  COVERS(GetParam().row.c_str());
  try {
    const auto names = parse_host_list(GetParam().text);
    ADD_FAILURE() << GetParam().text << " gave " << names.size() << " names";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("\"" + GetParam().text + "\""), std::string::npos) << error.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, NoHostList,
                         testing::Values(Refused{"H-14", "invalid[]"}, Refused{"H-16", "n[3-1]"}, Refused{"H-16", "n[1-2-3]"},
                                         Refused{"H-16", "n[1,]"}, Refused{"H-16", "n[1-3"}, Refused{"K-47", "n1-3]"}, Refused{"K-47", "n[[1]]"},
                                         Refused{"K-47", "n[a-b]"}, Refused{"K-47", "n[-1]"}, Refused{"K-47", "n[+1]"}, Refused{"K-47", "n[1-]"},
                                         Refused{"K-47", "a,,b"}, Refused{"K-47", "a,"}, Refused{"K-47", ",a"},
                                         Refused{"K-47", "n[0-99999999999999999999]"}, Refused{"K-47", "n[0-999999999]"},
                                         Refused{"K-47", "n[0-9999][0-9999]"}));

// Hosts that are sorted elsewhere can be had so; the order of the items stays.
TEST(LongHostList, ALongListEndsBeforeAMillionLongNamesTakeAllMemory) {
  const std::string longest(longest_host_name - 1, 'n');
  EXPECT_EQ(parse_host_list(longest + "[1-9]").size(), 9U);
  for (const std::string& text : {longest + "[1-10]", longest + "[10]", longest + "[1]x", std::string(100'000, 'n') + "[1-1000000]"}) {
    EXPECT_THROW(parse_host_list(text), InvalidArgument) << text.size();
  }
}

TEST(SortedHostList, ASortedListSortsTheNumbersOfABracket) {
  COVERS("H-07", "C-24");
  const auto sorted = [](const std::string& text) { return parse_host_list(text, HostOrder::sorted); };
  EXPECT_EQ(sorted("node[18-19,1-16,21-22]"),
            numbered("node", {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "18", "19", "21", "22"}));
  EXPECT_EQ(sorted("node[4-8,12,16-20,22,24-26]"), numbered("node", eight_ascending));
  EXPECT_EQ(sorted("c1010a-s17,c1009a-s11"), (Names{"c1010a-s17", "c1009a-s11"}));
  EXPECT_EQ(sorted("n[3,1-3]"), numbered("n", {"1", "2", "3"}));
  EXPECT_EQ(parse_host_list("n[3,1-3]"), numbered("n", {"3", "1", "2", "3"}));
}

}  // namespace
}  // namespace unisono::rendezvous
