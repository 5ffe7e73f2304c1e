// Trains a multilayer perceptron of 10 million parameters through auto_model, and reports the speed and how much of the communication the backward
// pass hides; --help lists its arguments.
// A step is zero_grad, forward, loss, backward and SGD on data prepared beforehand. Three figures are measured in turns, step by step, so that
// disturbances of the machine affect all alike: a step, a step without communication (no_sync), and the reduction of the same buckets alone, after a
// barrier. The share of hidden communication is 1 - (step - step without communication) / reduction alone.
// --trace writes the timeline of the last steps as a Chrome trace (chrome://tracing, Perfetto), with one process for each rank.
// --free-core lets all ranks compute on one core, and gives the threads that drive communication another core, which is free.
#include <fmt/format.h>
#include <sched.h>
#include <time.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <numeric>

#include "unisono/torch.h"
#include "unisono/torch/data_parallel.h"
#include "unisono/torch/memory.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  int steps = 60, batch = 32;
  double bucket_cap_mb = 25;
  std::string compression = "none", trace;
  bool free_core = false;
};

constexpr const char* help =
    "usage: unisono-bench-torch [--steps N] [--batch N] [--bucket-cap-mb X] [--compression none|float16|bfloat16|powersgd] [--trace FILE]\n"
    "                           [--free-core]\n"
    "Trains a multilayer perceptron of 10 million parameters through auto_model, and says how fast, and how much of the communication the backward\n"
    "pass hides. Run it as several ranks: unisono run -n 2 -- unisono-bench-torch\n"
    "  --steps N          steps that are measured (60)\n"
    "  --batch N          samples of each rank in a step (32)\n"
    "  --bucket-cap-mb X  the size of a bucket of gradients (25)\n"
    "  --compression ...  how gradients travel (none)\n"
    "  --trace FILE       writes the timeline of the last steps as a Chrome trace\n"
    "  --free-core        the ranks compute on one core, and communicate on another\n";

/// Arguments that are not understood.
struct Misused : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

template <class T>
T number(std::string_view name, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  if (error != std::errc() || end != text.end() || !(value > 0)) throw Misused(fmt::format("{} needs a number above 0, and got \"{}\"", name, text));
  return value;
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--free-core") {
      settings.free_core = true;
      continue;
    }
    static constexpr std::array<std::string_view, 5> with_value{"--steps", "--batch", "--bucket-cap-mb", "--compression", "--trace"};
    if (std::ranges::find(with_value, name) == with_value.end()) throw Misused(fmt::format("unknown argument {}", name));
    if (i + 1 == argc) throw Misused(fmt::format("{} needs a value", name));
    const std::string value = argv[++i];
    if (name == "--steps") settings.steps = number<int>(name, value);
    if (name == "--batch") settings.batch = number<int>(name, value);
    if (name == "--bucket-cap-mb") settings.bucket_cap_mb = number<double>(name, value);
    if (name == "--compression") settings.compression = value;
    if (name == "--trace") settings.trace = value;
  }
  static constexpr std::array<std::string_view, 4> compressions{"none", "float16", "bfloat16", "powersgd"};
  if (std::ranges::find(compressions, settings.compression) == compressions.end()) {
    throw Misused(fmt::format("no compression {}", settings.compression));
  }
  return settings;
}

unisono::Compression compression_of(const std::string& name) {
  if (name == "none") return {};
  if (name == "float16") return unisono::Compression::float16(unisono::Compression::Where::everywhere);
  if (name == "bfloat16") return unisono::Compression::bfloat16(unisono::Compression::Where::everywhere);
  return unisono::Compression::power_sgd({.rank = 2});
}

void bind_to(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<std::size_t>(core), &cores);
  if (::sched_setaffinity(0, sizeof cores, &cores) != 0) throw std::runtime_error(fmt::format("cannot run on core {}", core));
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Returns the processor time of all threads of this process.
double processor_milliseconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
}

struct Samples {
  std::vector<double> wall, processor;  // ms
  template <class F>
  void add(F&& f) {
    const auto begin = Clock::now();
    const double used = processor_milliseconds();
    f();
    processor.push_back(processor_milliseconds() - used);
    wall.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
};

struct Event {
  std::string name;
  int lane = 0;                     // 0: computing, 1: communication
  std::int64_t begin = 0, end = 0;  // ns
  UNISONO_FIELDS(name, lane, begin, end)
};

std::int64_t ns(Clock::time_point t) { return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count(); }

void add_events(const unisono::BackwardTimes& times, std::vector<Event>& events) {
  events.push_back({"backward, from the first gradient to the last", 0, ns(times.first_gradient), ns(times.last_gradient)});
  events.push_back({"wait for the reductions", 0, ns(times.last_gradient), ns(times.end)});
  for (const auto& bucket : times.buckets) {
    events.push_back({fmt::format("reduce {} and {} more, {:.1f} MiB", bucket.parameters.front(), bucket.parameters.size() - 1,
                                  static_cast<double>(bucket.bytes) / 1048576),
                      1, ns(bucket.started), ns(bucket.completed)});
  }
}

void write_trace(const std::string& path, const std::vector<std::vector<Event>>& ranks) {
  std::ofstream out(path);
  out << "{\"traceEvents\":[\n";
  bool first = true;
  const auto line = [&](const std::string& text) {
    out << (first ? "" : ",\n") << text;
    first = false;
  };
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    line(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"rank {}"}}}})", r, r));
    for (const int lane : {0, 1}) {
      line(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})", r, lane,
                       lane == 0 ? "compute" : "communication"));
    }
    for (const Event& event : ranks[r]) {
      line(fmt::format(R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})", event.name, r, event.lane,
                       static_cast<double>(event.begin) / 1e3, static_cast<double>(event.end - event.begin) / 1e3));
    }
  }
  out << "\n]}\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

/// The three figures, and the share of the reductions that each step hid by its timeline.
struct Measured {
  Samples steps, quiet, reductions, together;
  std::vector<double> hidden;
  std::vector<Event> events;
  std::size_t buckets = 0;
};

/// Returns the part of the reductions' time that does not fall into the wait after the last gradient.
double hidden_by_timeline(const unisono::BackwardTimes& times) {
  const double wait = std::chrono::duration<double>(times.end - times.last_gradient).count();
  double under_way = 0;
  auto until = times.first_gradient;
  for (const auto& bucket : times.buckets) {
    under_way += std::max(0.0, std::chrono::duration<double>(bucket.completed - std::max(bucket.started, until)).count());
    until = std::max(until, bucket.completed);
  }
  return 1 - std::min(wait / under_way, 1.0);
}

template <class Model, class Step, class SilentStep>
Measured measure(int count, Model& model, const Step& step, const SilentStep& silent_step) {
  std::vector<torch::Tensor> alone;
  for (const auto& bucket : model.backward_times().buckets) {
    alone.push_back(unisono::empty_shared({static_cast<std::int64_t>(bucket.bytes / sizeof(float))}).fill_(1e-3));
  }
  Measured measured;
  measured.buckets = alone.size();
  for (int i = 0; i < count; ++i) {
    unisono::barrier();
    measured.steps.add(step);
    const auto times = model.backward_times();
    if (i + 5 >= count) add_events(times, measured.events);
    unisono::barrier();
    measured.quiet.add(silent_step);
    unisono::barrier();
    measured.reductions.add([&] {
      std::vector<unisono::Work> works;
      for (const torch::Tensor& bucket : alone) works.push_back(unisono::all_reduce_async(bucket, unisono::ReduceOp::avg));
      unisono::wait_all(works);
    });
    measured.hidden.push_back(hidden_by_timeline(times));
  }
  // These steps run without the others in between, as a user trains.
  unisono::barrier();
  measured.together.add([&] {
    for (int i = 0; i < count; ++i) step();
  });
  return measured;
}

void report(const Settings& settings, std::int64_t parameters, const Measured& measured) {
  fmt::print("{} ranks, {} parameters, batch {} per rank, {} buckets, compression {}{}\n", unisono::world_size(), parameters, settings.batch,
             measured.buckets, settings.compression, settings.free_core ? ", a core for communication" : "");
  fmt::print("{:8.2f} steps/s\n", 1e3 * settings.steps / measured.together.wall.front());
  const auto row = [](const char* what, const Samples& samples) {
    fmt::print("{:8.3f} ms, {:8.3f} ms of processor time: {}\n", median(samples.wall), median(samples.processor), what);
  };
  row("a step", measured.steps);
  row("a step without reduction", measured.quiet);
  row("the reduction alone", measured.reductions);
  const double with = median(measured.steps.wall), without = median(measured.quiet.wall), reduction = median(measured.reductions.wall);
  fmt::print("{:8.1f} % of the communication hidden by the steps' times, {:.1f} % by the timeline\n", 100 * (1 - (with - without) / reduction),
             100 * median(measured.hidden));
}

int bench(const Settings& settings) {
  const unisono::Context context;
  torch::set_num_threads(1);
  if (settings.free_core) {
    bind_to(1);
    torch::Tensor something = torch::ones({1 << 22});
    unisono::all_reduce_async(something).wait();  // starts the thread that drives asynchronous calls, on this core
    bind_to(0);
  }
  const auto perceptron = [] {
    return torch::nn::Sequential(torch::nn::Linear(1024, 2048), torch::nn::ReLU(), torch::nn::Linear(2048, 2048), torch::nn::ReLU(),
                                 torch::nn::Linear(2048, 1800), torch::nn::ReLU(), torch::nn::Linear(1800, 10));
  };
  auto model = unisono::auto_model(perceptron(), {.bucket_cap_mb = settings.bucket_cap_mb, .compression = compression_of(settings.compression)});
  const auto leave = [](const unisono::GradientBucket&, const unisono::ProcessGroup&) {};
  auto silent = unisono::auto_model(perceptron(), {.bucket_cap_mb = settings.bucket_cap_mb, .compression = leave});
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.01));
  torch::optim::SGD silent_optimizer(silent.parameters(), torch::optim::SGDOptions(0.01));
  const torch::Tensor x = torch::randn({settings.batch, 1024}), y = torch::randint(10, {settings.batch}, torch::kLong);
  const auto train = [&](auto& net, torch::optim::Optimizer& its) {
    its.zero_grad();
    torch::nn::functional::cross_entropy(net(x), y).backward();
    its.step();
  };
  const auto step = [&] { train(model, optimizer); };
  const auto silent_step = [&] { train(silent, silent_optimizer); };
  for (int i = 0; i < 5; ++i) {
    step();
    silent_step();
  }

  const Measured measured = measure(settings.steps, model, step, silent_step);
  const auto ranks = unisono::all_gather_object(measured.events);
  if (unisono::rank() == 0) {
    std::int64_t parameters = 0;
    for (const auto& parameter : model.parameters()) parameters += parameter.numel();
    report(settings, parameters, measured);
    if (!settings.trace.empty()) write_trace(settings.trace, ranks);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (std::any_of(argv + 1, argv + argc, [](std::string_view word) { return word == "--help" || word == "-h"; })) {
    fmt::print("{}", help);
    return 0;
  }
  try {
    return bench(parse(argc, argv));
  } catch (const Misused& error) {
    fmt::print(stderr, "unisono-bench-torch: {}; --help says more\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
