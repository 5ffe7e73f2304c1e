#pragma once

// Debian's libgloo-dev lacks this header, although its own <gloo/transport/tcp/pair.h> includes it. This replacement declares what those headers
// need: three pointers with the layout that the library was built with. Buffers belong to Gloo's caller. Gloo's thread has weak references to them,
// and keeps a buffer alive only while it reads into it or writes from it.

#include <memory>
#include <thread>

namespace gloo {

template <class T>
class WeakNonOwningPtr;

/// A buffer's reference to itself. Its destructor waits until the buffer is not used any more.
template <class T>
class ShareableNonOwningPtr final {
 public:
  explicit ShareableNonOwningPtr(T* object) : shared_(object, [](void*) {}) {}
  ShareableNonOwningPtr(const ShareableNonOwningPtr&) = delete;
  ShareableNonOwningPtr& operator=(const ShareableNonOwningPtr&) = delete;
  ~ShareableNonOwningPtr() {
    const std::weak_ptr<T> rest = shared_;
    for (shared_.reset(); !rest.expired();) std::this_thread::yield();
  }

 private:
  friend class WeakNonOwningPtr<T>;
  std::shared_ptr<T> shared_;
};

/// A user's reference to the buffer; true if the buffer still existed.
template <class T>
class NonOwningPtr final {
 public:
  NonOwningPtr() = default;
  explicit NonOwningPtr(const WeakNonOwningPtr<T>& weak) : shared_(weak.weak_.lock()) {}
  explicit operator bool() const noexcept { return shared_ != nullptr; }
  T* operator->() const noexcept { return shared_.get(); }

 private:
  std::shared_ptr<T> shared_;
};

template <class T>
class WeakNonOwningPtr final {
 public:
  WeakNonOwningPtr() = default;
  explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T>& object) : weak_(object.shared_) {}

 private:
  friend class NonOwningPtr<T>;
  std::weak_ptr<T> weak_;
};

}  // namespace gloo
