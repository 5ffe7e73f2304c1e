#pragma once

#include <memory>
#include <string>

namespace unisono::base::openssl {

template <auto Function>
struct Free {
  template <class T>
  void operator()(T* object) const {
    Function(object);
  }
};
template <class T, auto Function>
using Owned = std::unique_ptr<T, Free<Function>>;

/// Takes the reasons that OpenSSL has collected in this thread, as one sentence: "certificate has expired".
std::string take_reasons();

}  // namespace unisono::base::openssl
