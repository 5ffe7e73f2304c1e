// Lets a number of particles drift, keeps their centre, and saves where they are from time to time.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "Particles that drift, and are saved from time to time. See docs/troubleshooting/six-hangs.md.";

class Particles {
 public:
  Particles() : saving_(unisono::new_group()), places_(100, static_cast<double>(unisono::rank())) {}

  void drift() {
    const double centre = unisono::all_reduce(places_[0], unisono::ReduceOp::avg);
    for (double& place : places_) place += 0.1 * (centre - place);
  }
  void save() {
    std::vector<double> all(places_.size() * static_cast<std::size_t>(unisono::world_size()));
    unisono::gather(places_, all, 0, saving_);
    saved_ = all.back();
  }
  double saved() const { return saved_.value_or(0); }

 private:
  unisono::ProcessGroup saving_;
  std::vector<double> places_;
  std::optional<double> saved_;
};

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    constexpr int steps = 20, between = 5;
    unisono::Context context;
    Particles particles;
    auto checkpoint = unisono::one_rank_only([&] { particles.save(); });
    for (int step = 1; step <= steps; ++step) {
      particles.drift();
      if (step % between == 0) checkpoint();
    }
    if (unisono::is_main_process()) std::printf("the last one was at %.3f\n", particles.saved());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
