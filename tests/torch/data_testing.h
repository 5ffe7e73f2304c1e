#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "refusal.h"
#include "unisono/torch/data.h"
#include "unisono/unisono.h"

namespace unisono {

using torch::data::DataLoaderOptions;
using Example = torch::data::Example<>;

/// Sample i is i and 100 + i.
struct Numbers : torch::data::Dataset<Numbers> {
  explicit Numbers(std::size_t n) : n_(n) {}
  Example get(std::size_t i) override { return {torch::tensor(static_cast<float>(i)), torch::tensor(static_cast<std::int64_t>(100 + i))}; }
  std::optional<std::size_t> size() const override { return n_; }
  std::size_t n_;
};

template <class Loader>
std::vector<std::size_t> samples(Loader& loader) {
  std::vector<std::size_t> all;
  for (auto& batch : loader) {
    for (const Example& example : batch) all.push_back(static_cast<std::size_t>(example.data.item().toFloat()));
  }
  return all;
}
template <class Loader>
std::vector<std::size_t> batch_sizes(Loader& loader) {
  std::vector<std::size_t> all;
  for (auto& batch : loader) all.push_back(batch.size());
  return all;
}

/// TORCH_WARN of this thread.
class Warnings : public c10::WarningHandler {
 public:
  Warnings() : before_(c10::WarningUtils::get_warning_handler()) { c10::WarningUtils::set_warning_handler(this); }
  ~Warnings() override { c10::WarningUtils::set_warning_handler(before_); }
  void process(const c10::Warning& warning) override { text += warning.msg() + "\n"; }
  std::string text = {};

 private:
  c10::WarningHandler* before_;
};

class Ranks : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { torch::set_num_threads(1); }
};

}  // namespace unisono
