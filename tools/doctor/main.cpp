#include "base/environment.h"
#include "common/commands.h"
#include "common/program.h"
#include "doctor/worker.h"
#include "hosts/conducted.h"

int main(int argc, char** argv) {
  unisono::base::Environment::forget_secrets();
  std::vector<std::string> words(argv + 1, argv + argc);
  unisono::tools::take_conductor_off(words);
  if (!words.empty() && words[0] == "__doctor") return unisono::tools::serve_as_doctor();
  return unisono::tools::run_program(words, unisono::tools::add_doctor);
}
