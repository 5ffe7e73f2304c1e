// Calls of unisono from C++, for scripts/bench/controller: what bench/controller/measure.py measures of the libraries of Python.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "unisono/detail/remote_call.h"
#include "unisono/error.h"

namespace {

using unisono::detail::Frame;
using unisono::detail::FramePart;
using unisono::detail::RemoteFunction;
using unisono::detail::RemoteRun;
using Clock = std::chrono::steady_clock;

constexpr int in_flight = 1000;
constexpr std::size_t large = std::size_t{16} << 20;
constexpr double to_us = 1e6, to_gb = 1e-9;

const RemoteFunction& nothing() {
  static const auto& function = unisono::detail::register_remote(
      {.name = "nothing", .signature = "() -> nothing", .run = [](RemoteRun& /*run*/, Frame&& /*arguments*/) { return Frame(); }});
  return function;
}

/// Returns the last element of the part.
const RemoteFunction& last_of() {
  static const auto& function =
      unisono::detail::register_remote({.name = "last_of", .signature = "(doubles) -> double", .run = [](RemoteRun& /*run*/, Frame&& arguments) {
                                          const FramePart& part = arguments.parts.at(0);
                                          const auto* const end = part.data + part.bytes;
                                          return Frame{.body = {end - sizeof(double), end}};
                                        }});
  return function;
}

/// Returns the median of the seconds of the calls of f in so long a time, and a tenth of it to warm up.
template <class F>
double median(double seconds, F&& f) {
  const auto until = [](double from_now) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(from_now));
  };
  for (const auto end = until(seconds / 10); Clock::now() < end;) f();
  std::vector<double> times;
  constexpr std::size_t least = 5;
  for (const auto end = until(seconds); times.size() < least || Clock::now() < end;) {
    const auto begin = Clock::now();
    f();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

void measure(unisono::detail::RemoteWorkers& workers, double seconds) {
  const auto call = [&] { return workers.begin(0, {.function = &nothing()}); };
  const double empty = median(seconds, [&] { call()->take(); });
  const double flight = median(seconds, [&] {
    std::vector<std::shared_ptr<unisono::detail::RemoteCall>> calls(in_flight);
    for (auto& each : calls) each = call();
    for (auto& each : calls) each->take();
  });
  std::vector<double> x(large / sizeof(double), 1), copy(x.size(), 1);
  double number = 0;
  const double sending = median(seconds, [&] {
    x.back() = ++number;
    Frame arguments{.parts = {{.data = reinterpret_cast<std::byte*>(x.data()), .bytes = large}}};
    const Frame answer = workers.begin(0, {.function = &last_of(), .arguments = std::move(arguments)})->take();
    double last = 0;
    std::memcpy(&last, answer.body.data(), sizeof last);
    if (last != number) throw unisono::Error("another number has come back");
  });
  const double copying = median(seconds / 4, [&] { std::ranges::copy(x, copy.begin()); });
  std::printf(R"({"library": "unisono, C++", "version": "", "empty_us": %g, "calls_per_s": %g, "large_gb_s": %g, "memcpy_gb_s": %g})"
              "\n",
              empty * to_us, in_flight / flight, static_cast<double>(large) / sending * to_gb, static_cast<double>(large) / copying * to_gb);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    nothing();
    last_of();
    const auto meeting = unisono::detail::meet_workers({.workers = 1});
    if (!meeting.workers) return meeting.exit_code;
    measure(*meeting.workers, argc > 1 ? std::atof(argv[1]) : 1);
    meeting.workers->end();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
