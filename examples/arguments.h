#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

/// All examples treat their arguments alike: `--help` prints how the program is called and what it shows; unknown options and surplus arguments are
/// refused with a sentence. Returns the code with which the program then ends, or -1 where it goes on.
///   taken   the arguments that the program takes, such as "[digits.csv]"; empty where there are none
inline int ended_by_arguments(int argc, char** argv, const char* about, const char* taken = "", int most = 0) {
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  const char* const space = *taken == '\0' ? "" : " ";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      std::printf("usage: %s%s%s\n%s\n", name.c_str(), space, taken, about);
      return 0;
    }
    if (i > most || argument.starts_with('-')) {
      std::fprintf(stderr, "%s: unknown argument %s\nusage: %s%s%s   (--help says more)\n", name.c_str(), argv[i], name.c_str(), space, taken);
      return 2;
    }
  }
  return -1;
}
