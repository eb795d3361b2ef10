// Owners of objects of C libraries.
#pragma once

#include <memory>

namespace base {

template <auto kFree>
struct CFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

// CPtr<X509, X509_free>
template <typename T, auto kFree>
using CPtr = std::unique_ptr<T, CFree<kFree>>;

}  // namespace base
