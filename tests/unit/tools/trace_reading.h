#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "trace/merge.h"

namespace unisono::testing {

/// Returns the calls of a rank, in the order of the trace's ranks.
inline std::vector<tools::Slice> slices_of(const tools::Merge& merge, std::size_t rank) {
  std::vector<tools::Slice> slices;
  merge.each_of(rank, [&](const tools::Slice& slice) { slices.push_back(slice); });
  for (tools::Slice& slice : slices) slice.call = nullptr;  // gone by now
  return slices;
}

inline std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Returns the data of a page.
inline nlohmann::json data_of(const std::string& page) {
  const std::string opening = "id=\"data\">";
  const auto begin = page.find(opening) + opening.size();
  const std::string data = page.substr(begin, page.find("</script>", begin) - begin);
  EXPECT_EQ(data.find('<'), std::string::npos) << "no text of a program ends the script";
  return nlohmann::json::parse(data);
}

}  // namespace unisono::testing
