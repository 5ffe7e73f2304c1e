// A program that knows nothing of this library and never flushes: what the launcher's tests start to see what becomes of its output.

#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

namespace {

int columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : -1;
}

[[noreturn]] void rest() {
  while (true) ::pause();
}

std::string rank() {
  const char* text = std::getenv("RANK");
  return text != nullptr ? text : "none";
}

/// As PyTorch writes an exception that nobody catches: every line with the rank. Each is one write: a terminal would show a part of a line that has
/// to wait for its end.
void trace(int frames) {
  const auto say = [mark = "[rank" + rank() + "]: "](const std::string& text) { std::cerr << mark + text + "\n"; };
  say("Traceback (most recent call last):");
  for (int i = 0; i < frames; ++i) say("  File \"train.py\", line " + std::to_string(10 + i) + ", in step_" + std::to_string(i));
  say("ValueError: bad data");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return argc > i ? std::atoi(argv[i]) : 0; };
  if (mode == "live") {  // prints and rests
    std::printf("step 1\n");
    std::cout << "step 2\n";
    std::fputs("printed\n", stderr);  // std::cerr would flush std::cout
    rest();
  } else if (mode == "end-by") {  // end-by SIGNAL
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    std::printf("last words\n");
    ::signal(number(2), SIG_DFL);
    ::raise(number(2));
  } else if (mode == "terminals") {
    std::printf("output %d error %d columns %d\n", ::isatty(STDOUT_FILENO), ::isatty(STDERR_FILENO), columns());
  } else if (mode == "resized") {  // until its terminal has 96 columns
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    std::printf("ready\n");
    do {
      int signal = 0;
      ::sigwait(&set, &signal);
      std::printf("columns %d\n", columns());
    } while (columns() != 96);
  } else if (mode == "hello") {
    std::printf("hello from rank %s\n", rank().c_str());
  } else if (mode == "colour") {
    std::printf("\x1b[32mgreen to the end\n");
  } else if (mode == "prompt") {  // prompt RANK: that one asks, and greets whoever answers
    if (rank() != std::to_string(number(2))) return 0;
    std::printf("[rank%s]: name? ", rank().c_str());
    std::fflush(stdout);
    std::string name;
    std::getline(std::cin, name);
    std::printf("hello %s\n", name.c_str());
  } else if (mode == "trace") {  // trace RANK FRAMES CODE: the others rest
    if (rank() != std::to_string(number(2))) rest();
    trace(number(3));
    return number(4);
  } else {
    return 91;
  }
  return 0;
}
