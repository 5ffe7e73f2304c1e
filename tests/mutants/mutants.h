#pragma once

// The script test/mutants puts this into its copy of the sources: all mutations are compiled in, and MUTANT=n in the environment chooses the one that
// is carried out. With MUTANTS_SEEN=FILE byte n of the file tells that mutation n was reached, and whether it would have made a difference there.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <initializer_list>

namespace mutants {

inline constexpr std::size_t most = std::size_t{1} << 16;
enum Seen : unsigned char { unseen = 0, reached = 1, differed = 2 };

struct Switch {
  int chosen = 0;
  std::atomic<unsigned char>* seen = nullptr;

  Switch() {
    if (const char* number = std::getenv("MUTANT")) chosen = std::atoi(number);
    const char* file = std::getenv("MUTANTS_SEEN");
    const int descriptor = file == nullptr ? -1 : ::open(file, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return;
    void* memory = ::mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    if (memory != MAP_FAILED) seen = static_cast<std::atomic<unsigned char>*>(memory);
  }
};
inline const Switch& the_switch() {
  static const Switch instance;
  return instance;
}

inline bool is(int n) { return the_switch().chosen == n; }
inline bool note(int n, bool differs) {
  if (auto* seen = the_switch().seen) seen[n].fetch_or(differs ? reached | differed : reached, std::memory_order_relaxed);
  return is(n);
}

/// A mutation that makes a difference wherever it is reached.
inline bool on(int n) { return note(n, true); }

/// The value of a condition that mutation n replaces by the other one.
inline bool value(int n, bool replaced, bool value) {
  note(n, value == replaced);
  return value;
}

template <class A, class B>
bool chosen(int n, const A& original, const B& mutated) {
  return note(n, original != mutated) ? static_cast<bool>(mutated) : static_cast<bool>(original);
}

#define MUTANTS_COMPARISON(name, original, mutated)                                    \
  template <class A, class B>                                                          \
  bool name(int n, const A& a, const B& b) {                                           \
    return chosen(n, static_cast<bool>(a original b), static_cast<bool>(a mutated b)); \
  }
MUTANTS_COMPARISON(less, <, <=)
MUTANTS_COMPARISON(less_equal, <=, <)
MUTANTS_COMPARISON(greater, >, >=)
MUTANTS_COMPARISON(greater_equal, >=, >)
#undef MUTANTS_COMPARISON

#define MUTANTS_ARITHMETIC(name, original, mutated) \
  template <class A, class B>                       \
  auto name(int n, const A& a, const B& b) {        \
    return on(n) ? a mutated b : a original b;      \
  }
MUTANTS_ARITHMETIC(plus, +, -)
MUTANTS_ARITHMETIC(minus, -, +)
MUTANTS_ARITHMETIC(times, *, +)
MUTANTS_ARITHMETIC(divided_by, /, *)
MUTANTS_ARITHMETIC(modulo, %, /)
MUTANTS_ARITHMETIC(bit_and, &, |)
MUTANTS_ARITHMETIC(bit_or, |, &)
MUTANTS_ARITHMETIC(shift_left, <<, >>)
MUTANTS_ARITHMETIC(shift_right, >>, <<)
#undef MUTANTS_ARITHMETIC

template <class T>
T min(int n, const T& a, const T& b) {
  return note(n, a < b || b < a) ? std::max(a, b) : std::min(a, b);
}
template <class T>
T max(int n, const T& a, const T& b) {
  return note(n, a < b || b < a) ? std::min(a, b) : std::max(a, b);
}
template <class T>
T min(int n, std::initializer_list<T> list) {
  return note(n, std::min(list) < std::max(list)) ? std::max(list) : std::min(list);
}

}  // namespace mutants
